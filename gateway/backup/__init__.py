"""Copies of everything in one file: made while the gateway runs, checked, restored aside and then renamed, and tried out by a drill.

contents      what belongs to a copy, and what is left out and why
archive       the files of a copy as a tar stream, written and read with bounded memory
manifest      what a copy says of itself, and the check of every path in it
encryption    keys, and the encrypted stream
creation      makes a copy; extraction checks one and unpacks it; restoring puts it in place; drill tries one out
folder        the copies of a folder, and ``retention`` which of them are kept
schedule      when the next one is due
"""
