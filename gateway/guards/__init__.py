"""What keeps a house from harm when it crashes, stalls, or its disk refuses."""
