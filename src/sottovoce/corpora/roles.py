"""Roles are no persons: "agent" in every second record is one side of all calls, not somebody."""

_NAMES = """
user users agent agents assistant system bot chatbot robot machine model ai llm tool function
human person customer caller callee client guest visitor patient doctor nurse student teacher
operator advisor adviser representative rep staff support service helpdesk moderator admin
interviewer interviewee speaker listener sender receiver recipient source target self other me
you them us they inbound outbound incoming outgoing in out left right both usr sys cust unknown
anonymous none null nobody n/a na nan undefined default
"""
_ROLES = frozenset(_NAMES.split())


def is_role(name: str) -> bool:
    """Is this the name of a role, or of nobody in particular, and not of a person?

    >>> is_role("Agent"), is_role("[USER]"), is_role("u00017"), is_role("ann")
    (True, True, False, False)
    """
    return name.strip(" \t<>[](){}:|#*_-\"'").lower() in _ROLES
