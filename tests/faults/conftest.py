"""The victims lie beside their killer."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
