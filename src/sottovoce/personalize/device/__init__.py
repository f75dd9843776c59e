"""State of a device: its contribution log, its encrypted file, and the messages it exchanges."""
