package solve

import "math/bits"

// set is a set of values of one slot: 0 is that nothing is installed, the others are versions, the newest first.
type set []uint64

func newSet(size int) set { return make(set, (size+63)/64) }

// full has every value below size.
func full(size int) set {
	s := newSet(size)
	for i := range size {
		s.add(i)
	}
	return s
}

func (s set) add(value int)      { s[value/64] |= 1 << (value % 64) }
func (s set) has(value int) bool { return s[value/64]&(1<<(value%64)) != 0 }

func (s set) and(t set) set {
	out := make(set, len(s))
	for i := range s {
		out[i] = s[i] & t[i]
	}
	return out
}

func (s set) or(t set) set {
	out := make(set, len(s))
	for i := range s {
		out[i] = s[i] | t[i]
	}
	return out
}

// minus is also how a complement is taken, from the full set of the slot.
func (s set) minus(t set) set {
	out := make(set, len(s))
	for i := range s {
		out[i] = s[i] &^ t[i]
	}
	return out
}

func (s set) within(t set) bool {
	for i := range s {
		if s[i]&^t[i] != 0 {
			return false
		}
	}
	return true
}

func (s set) meets(t set) bool {
	for i := range s {
		if s[i]&t[i] != 0 {
			return true
		}
	}
	return false
}

func (s set) empty() bool { return !s.meets(s) }

// single gives the only value.
func (s set) single() (value int, ok bool) {
	value = -1
	for i, word := range s {
		if word == 0 {
			continue
		}
		if value >= 0 || word&(word-1) != 0 {
			return 0, false
		}
		value = i*64 + bits.TrailingZeros64(word)
	}
	return value, value >= 0
}
