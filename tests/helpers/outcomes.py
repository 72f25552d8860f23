"""How a command is expected to end."""

from tests.conftest import Outcome


def passes(done: Outcome, *said: object) -> Outcome:
    """The outcome of a command that ended well and printed all of this."""
    assert done.code == 0, done.err
    for one in said:
        assert str(one) in done.out, done.out
    return done


def refuses(done: Outcome, *said: object) -> Outcome:
    """The outcome of a command that ended with exit code 2 and said all of this."""
    assert done.code == 2, done.out + done.err
    for one in said:
        assert str(one) in done.err, done.err
    return done


def refuses_in_a_line(done: Outcome, *said: object) -> Outcome:
    """The outcome of a command that ended with exit code 2 and one line, which said all of this."""
    assert done.err.count("\n") == 1, done.err
    return refuses(done, *said)
