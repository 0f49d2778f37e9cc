"""`python -m jitopt` is the command line."""

import sys

from jitopt.cli import main

sys.exit(main())
