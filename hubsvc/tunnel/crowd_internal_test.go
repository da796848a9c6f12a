package tunnel

import (
	"testing"
	"time"

	"github.com/pluralsh/plural/api/tunnelapi"
)

func TestConnectionsThatAreOnTheirWayOutMakeNoRoomTwice(t *testing.T) {
	var l held
	ended := map[*connection]int{}
	for i := range 3 * maxConnections { // none of which is gone yet when the next one comes
		l.makeRoom()
		c := &connection{hello: &tunnelapi.Hello{Boot: "a"}, since: time.Unix(int64(i), 0)}
		c.end = func(error) { ended[c]++ }
		l.list = append(l.list, c)
		if stay := len(l.list) - len(ended); stay > maxConnections {
			t.Fatalf("%d connections stay", stay)
		}
	}
	for i, c := range l.list {
		if want := i < 2*maxConnections; (ended[c] == 1) != want || ended[c] > 1 {
			t.Errorf("connection %d was ended %d times", i, ended[c])
		}
	}
	if l.best() != l.list[2*maxConnections] {
		t.Error("a connection that was ended is taken for a route")
	}
}
