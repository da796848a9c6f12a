package simnode

import (
	"encoding/binary"
	"net/netip"
	"sync"
)

// First addresses of made-up ranges, apart from each other and from the services'
// 10.96.0.0/12. Nothing answers there.
const (
	nodeBase = 10<<24 | 64<<16  // 10.64.0.0
	podBase  = 10<<24 | 128<<16 // 10.128.0.0/9
	podRange = 1<<23 - 1
)

// Ranges are what addresses of simulated nodes and pods are from.
func Ranges() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(address(nodeBase), 16), netip.PrefixFrom(address(podBase), 9)}
}

func nodeAddress(i int) netip.Addr { return address(nodeBase + uint32(i) + 1) }

// podAddresses hands out addresses that no pod of this cluster had before, eight
// million of them until it begins anew.
type podAddresses struct {
	mu   sync.Mutex
	last uint32 // offset from podBase
}

// next returns a fresh address.
func (a *podAddresses) next() netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = a.last%podRange + 1
	return address(podBase + a.last)
}

// seen makes sure that an address given out by an earlier run is not given out again.
// Others, such as those of nodes, are ignored.
func (a *podAddresses) seen(given netip.Addr) {
	if !given.Is4() {
		return
	}
	bytes := given.As4()
	number := binary.BigEndian.Uint32(bytes[:])
	if number <= podBase || number > podBase+podRange {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = max(a.last, number-podBase)
}

func address(number uint32) netip.Addr {
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], number)
	return netip.AddrFrom4(bytes)
}
