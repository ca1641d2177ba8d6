"""Compares verdicts on a folder of skills: ours and those of the standard's validators.

Ours is "standard" where a skill is used and nothing is remarked. What is expected to differ stands in
EXPECTED with its reason.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

NAMES = "the standard's text allows a to z, its validators all letters"
TABLE = "the standard wants a table; its validators do not look"
EXPECTED: dict[tuple[str, str], str] = {
    ("pypi", "bad-größe"): NAMES,
    ("npm", "bad-größe"): NAMES,
    ("pypi", "lax-metadata-list"): TABLE,
    ("npm", "lax-metadata-list"): TABLE,
    ("pypi", "good-flow-style"): "it reads a part of YAML only",
    ("npm", "bad-name-is-a-list"): "it makes a text of everything",
    ("npm", "bad-bytes"): "it reads what is not UTF-8 with gaps",
}


def ours(folder: Path) -> dict[str, bool]:
    command = [os.environ["BOWLINE"], "skills", "check", "--json", str(folder.resolve())]
    report = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    return {Path(one["folder"]).name: one["standard"] for one in report["skills"]}


def theirs(validator: str, skill: Path) -> tuple[bool, str]:
    done = subprocess.run([validator, "validate", str(skill)], capture_output=True, text=True)
    return done.returncode == 0, " ".join((done.stdout + done.stderr).split())


def main() -> int:
    folder = Path(sys.argv[1])
    mine = ours(folder)
    unexpected = 0
    for name, variable in [("pypi", "SKILLS_REF_PYPI"), ("npm", "SKILLS_REF_NPM")]:
        validator = os.environ.get(variable)
        if validator is None:
            continue
        same = 0
        for skill in sorted(path for path in folder.iterdir() if path.is_dir()):
            is_valid, said = theirs(validator, skill)
            if is_valid == mine[skill.name]:
                same += 1
                continue
            reason = EXPECTED.get((name, skill.name))
            unexpected += reason is None
            verdicts = f"ours {mine[skill.name]}, theirs {is_valid}"
            print(f"{name}: {skill.name}: {verdicts}: {reason or 'NOT EXPECTED: ' + said[:200]}")
        print(f"{name}: {same} of {len(mine)} verdicts are the same")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
