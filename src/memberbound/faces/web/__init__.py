"""The web face: the verbs of the contract over HTTP, for one person on their own machine.

Nothing here is imported by the core; FastAPI and uvicorn come with the extra ``web``.
"""
