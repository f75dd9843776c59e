"""The service: what the command line does, over HTTP, and a page to play with.

`app.create_app` puts it together. Text that is sent to it goes into no log, no error message and no
file; the answer is the only place where it comes back.
"""
