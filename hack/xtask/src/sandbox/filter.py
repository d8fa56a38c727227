"""Installs a filter of system calls, and becomes a command.

Arguments: the folder of the module seccomp, the file with the filter, the command, and its arguments.
"""

import json
import os
import sys

folder, path, command = sys.argv[1], sys.argv[2], sys.argv[3:]
sys.path.insert(0, folder)
import seccomp  # noqa: E402


def action(error):
    """Returns the action for the number of an error. 0 permits the call."""
    return seccomp.ERRNO(error) if error else seccomp.ALLOW


with open(path, encoding="utf-8") as file:
    rules = json.load(file)
calls = seccomp.SyscallFilter(action(rules["otherwise"]))
for rule in rules["rules"]:
    # The list can have calls that this release of the library does not know. systemd leaves them out, too.
    if seccomp.resolve_syscall(seccomp.Arch(), rule["call"]) == -1:
        continue
    bits = rule["argument"]
    arguments = [seccomp.Arg(bits["index"], seccomp.MASKED_EQ, bits["mask"], bits["value"])] if bits else []
    calls.add_rule(action(rule["error"]), rule["call"], *arguments)
calls.load()
os.execvp(command[0], command)
