"""What a device keeps for itself: its book, its sealed file, and the messages it exchanges."""
