"""The i.i.d. game on discrete data: worst case, certificates from counts, records, planning."""
