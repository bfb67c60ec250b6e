"""Are these theorems right, and can I redo the figures?

Every result cited by a bound has an entry: its statement, the code that computes it and the tests
that check it. If a printed statement is wrong, the counterexample is computed on the spot. Every
figure is reproduced and its claims are checked one by one; two trials are enough to see how.
"""

import memberbound as mb

print("── A theorem")
print(mb.theorems("A25-T14").summary())

print("\n── An erratum")
print(mb.theorems("L24-P9").summary())

print("\n── A figure")
print(mb.reproduce("I24-F1", trials=2).summary())
