package apiproxy

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// giveUp has the kernel end a connection whose other end acknowledges nothing for as long as pings would take to find that out.
// What was asked on it is asked again on another then, while the hub still waits: by itself the kernel tries for a quarter of an
// hour.
func giveUp(_, _ string, conn syscall.RawConn) error {
	var err error
	control := conn.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int((pingAfter + pongWithin).Milliseconds()))
	})
	if control != nil {
		return control
	}
	return err
}
