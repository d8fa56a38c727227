// Package vmcheck stands for the check whether a machine is on VMware. No guest is.
package vmcheck

// IsVirtualWorld returns false.
func IsVirtualWorld() bool { return false }
