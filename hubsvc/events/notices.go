package events

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Notices are what this replica has noticed lately, by what each is about.
type Notices struct {
	mu   sync.Mutex // guards list
	list map[string]v1.Notice
}

// A notice is shown for a while after it was seen last; of more than there is room for, the oldest goes.
const (
	keepNotice = time.Hour
	maxNotices = 32
)

func notice(reason, message, fix string) v1.Notice {
	return v1.Notice{Time: time.Now().UTC(), Reason: reason, Message: message, Fix: fix}
}

func (n *Notices) note(about string, said v1.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.list == nil {
		n.list = map[string]v1.Notice{}
	}
	if n.list[about] = said; len(n.list) <= maxNotices {
		return
	}
	oldest := slices.MinFunc(slices.Collect(maps.Keys(n.list)), func(a, b string) int { return n.list[a].Time.Compare(n.list[b].Time) })
	delete(n.list, oldest)
}

// Newest lists them, the newest first.
func (n *Notices) Newest(now time.Time) []v1.Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.list, func(_ string, said v1.Notice) bool { return now.Sub(said.Time) > keepNotice })
	return slices.SortedFunc(maps.Values(n.list), func(a, b v1.Notice) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Message, b.Message))
	})
}

// TokenReplaced notes that the operator's token is another.
func (n *Notices) TokenReplaced() {
	n.note("token", notice("TokenReplaced", "the hub's own token was replaced: who has the former one is not logged in any more",
		"plural auth login with the new one; if nobody here replaced it, look at who can write the hub's token file"))
}

// AuditLost notes that lines of this replica's audit log were deleted that a sink had not got; zero: nobody counted them.
func (n *Notices) AuditLost(sink string, lines int) {
	count := "some lines"
	if lines > 0 {
		count = strconv.Itoa(lines) + " lines"
	}
	n.note("audit/"+sink, notice("AuditLost", count+" of the audit log were deleted before the sink "+sink+" had got them",
		"see the hub's log why it takes nothing"))
}

// MirrorDamaged notes what was found of a mirror, and whether it was fetched anew.
func (n *Notices) MirrorDamaged(name string, mended bool) {
	message, fix := "what the hub keeps of "+name+" on disk was damaged, and has been fetched anew", "look at the disk of the hub if this comes again"
	if !mended {
		message = "what the hub keeps of " + name + " on disk is damaged, and cannot be fetched anew now: services may be held"
		fix = "see plural source list why it cannot be fetched"
	}
	n.note("mirror/"+name, notice("MirrorDamaged", message, fix))
}
