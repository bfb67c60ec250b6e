"""The i.i.d. game on discrete data: worst cases, certificates from counts, and planning."""
