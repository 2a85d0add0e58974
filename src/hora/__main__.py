"""`python -m hora`."""

import sys

from hora.cli.main import main

sys.exit(main())
