"""eDP-SGD: layer scales and their sources."""
