"""The verbs of the contract, one module each: the question, the answer, its summary."""
