"""The faces of the verbs: the command line and the web, made from their declarations."""
