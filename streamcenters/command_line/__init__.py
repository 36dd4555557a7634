"""The command line: click commands on TOML files or options."""
