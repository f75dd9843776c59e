"""eDP-SGD: layer scales and where they come from."""
