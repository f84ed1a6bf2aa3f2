"""What every part of the gateway may use: errors, clock, paths, the state lock, atomic files. Imports no other part of the gateway."""
