"""Takes over the state of similar programs (Clawdbot, OpenClaw): settings, keys, workspaces, memory, sessions, people, jobs and skills."""
