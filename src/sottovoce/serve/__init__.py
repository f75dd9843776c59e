"""The HTTP service: the verbs of the command line as endpoints, and a playground.

`app.create_app` builds it. Text of requests is never logged, stored or quoted in error messages; it
is returned only in the response.
"""
