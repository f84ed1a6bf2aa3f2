"""Skills: instructions for one kind of work, in the open SKILL.md format (https://agentskills.io/specification)."""
