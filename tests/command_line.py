"""The command, called as a shell would, without a process."""

from __future__ import annotations

from slicewise.lab.cli import main


def accepted(capsys, *arguments):
    """What a call that works prints; it says nothing of trouble."""
    status = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    return out


def refused(capsys, *arguments):
    """The one line in which a call that cannot work says why."""
    status = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.startswith("slicewise: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert "fault of slicewise" not in err
    assert "Traceback" not in err
    return err
