"""What reaches gaiad from outside: HTTP on two listeners, watched folders, the timer. It asks the service only."""
