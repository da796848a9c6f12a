// Package netguard owns the addresses that the program may dial when others name them.
//
// It refuses to know who names an address, and why. A name is judged by what it resolves to, at the moment of dialling:
// [Policy.Control] is for a net.Dialer, which calls it with each address that it is about to connect to. So a name that
// resolves to something else the second time gains nothing.
//
// Addresses inside a company (RFC 1918 and the like) are ordinary: that is where its git hosts and registries are.
package netguard

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// Policy is what may be dialled besides ordinary addresses. The zero value allows nothing.
type Policy struct {
	// Loopback allows this machine's own addresses.
	Loopback bool
}

// Error says that an address is not dialled.
type Error struct {
	At netip.Addr
	// Why is what kind of address it is.
	Why string
	// Loopback says that a policy may allow it.
	Loopback bool
}

func (e *Error) Error() string { return fmt.Sprintf("%s is %s: refused", e.At, e.Why) }

// Control is a net.Dialer's.
func (p Policy) Control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial %.100q: not an address: refused", address)
	}
	return p.Check(at.Addr())
}

// Check says why an address is not dialled, by an *Error; nil: it is.
func (p Policy) Check(address netip.Addr) error {
	at, all := plain(address)
	for _, at := range all {
		if err := credentials(at); err != nil {
			return err
		}
	}
	switch {
	case at.IsLoopback() || at.IsUnspecified(): // the unspecified one leads to this machine as well
		if !p.Loopback {
			return &Error{at, "a loopback address", true}
		}
	case at.IsMulticast():
		return &Error{At: at, Why: "a multicast address"}
	}
	return nil
}

func credentials(at netip.Addr) error {
	switch {
	case at.IsLinkLocalUnicast():
		return &Error{At: at, Why: "a link-local address, where clouds keep their machines' credentials"}
	case slices.Contains(metadata(), at):
		return &Error{At: at, Why: "an address where a cloud keeps its machines' credentials"}
	}
	return nil
}

// plain is the IPv4 address that one of IPv6 stands for, where it does. All are those that it may stand for, with this one.
func plain(address netip.Addr) (at netip.Addr, all []netip.Addr) {
	at = address.Unmap().WithZone("")
	bytes := at.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(at), // NAT64
		netip.MustParsePrefix("::ffff:0:0:0/96").Contains(at): // translated (SIIT)
		at = netip.AddrFrom4([4]byte(bytes[12:]))
	case netip.MustParsePrefix("64:ff9b:1::/48").Contains(at): // NAT64 of a network's own
		return translated(bytes)
	case netip.MustParsePrefix("2002::/16").Contains(at): // 6to4
		at = netip.AddrFrom4([4]byte(bytes[2:]))
	}
	return at, []netip.Addr{at}
}

// translated are what an address stands for by the prefixes of 48, 56, 64 and 96 bits that RFC 6052 lets a network choose: which
// of them it has, the address does not show. After what it stands for there are to be zeros, so it is taken for the first that
// has nothing else after it: by the longer prefixes ordinary addresses look like others, 10.0.127.5 like 127.5.0.0.
func translated(bytes [16]byte) (first netip.Addr, all []netip.Addr) {
	for _, prefix := range []struct {
		four [4]byte
		rest []byte
	}{
		{[4]byte{bytes[6], bytes[7], bytes[9], bytes[10]}, bytes[11:]},
		{[4]byte{bytes[7], bytes[9], bytes[10], bytes[11]}, bytes[12:]},
		{[4]byte(bytes[9:]), bytes[13:]},
		{[4]byte(bytes[12:]), nil},
	} {
		at := netip.AddrFrom4(prefix.four)
		all = append(all, at)
		if !first.IsValid() && !slices.ContainsFunc(prefix.rest, func(b byte) bool { return b != 0 }) {
			first = at
		}
	}
	return first, all
}

// metadata are those that are not link-local: of AWS, Google, Alibaba, Azure and Oracle.
func metadata() []netip.Addr {
	return []netip.Addr{
		netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd00:ec2::23"), netip.MustParseAddr("fd20:ce::254"),
		netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
	}
}
