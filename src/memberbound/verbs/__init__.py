"""The verbs of the contract, one module each: its function, its answer and a summary."""
