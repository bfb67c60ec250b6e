"""What breaks: damaged files, failing file operations, killed workers and lost connections."""
