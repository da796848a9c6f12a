package tunnelapi

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
)

// Versions are those of this protocol that one side speaks: all from Min to Max.
type Versions struct{ Min, Max int32 }

// Spoken are the versions that are spoken here.
func Spoken() Versions { return Versions{MinProtocol, MaxProtocol} }

// Agree is the newest version that both sides speak.
func (v Versions) Agree(other Versions) (version int32, ok bool) {
	version = min(v.Max, other.Max)
	return version, version >= max(v.Min, other.Min, 1)
}

func (v Versions) String() string {
	if v.Min == v.Max {
		return fmt.Sprint(v.Min)
	}
	return fmt.Sprintf("%d to %d", v.Min, v.Max)
}

// NewBoot names an agent process that started now. It is greater than that of one that started before, as far as their
// clocks agree.
func NewBoot(now time.Time) string {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	return fmt.Sprintf("%012x-%s", now.UnixMilli(), hex.EncodeToString(random[:]))
}
