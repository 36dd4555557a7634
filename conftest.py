"""What cannot run where the optional t-digest package could not be built (scripts/setup says so)."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("tdigest") else ["*tdigest*", "*sketch_benchmark*"]
