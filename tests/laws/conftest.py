"""The adapters lie beside the laws."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
