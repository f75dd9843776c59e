"""The federation as a Flower app (needs the extra `flower`).

`server_app` and `client_app` hold the two apps. They run in simulation on one machine, or on a
SuperLink with SuperNodes; the checks, the noise and the ledger are those of `Server`.
"""
