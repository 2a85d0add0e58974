"""What the suites share: running the command line, terminals, leftovers, hostile names."""

import os

ORIGINAL_ENVIRONMENT = dict(os.environ)  # before any test got a home of its own
