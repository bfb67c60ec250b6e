"""The faces of the verbs: the command line and the web, generated from their declarations."""
