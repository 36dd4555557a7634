"""Lets the tests of this folder share `sketch_oracle`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
