package parentwatch_test

import (
	"io"
	"testing"

	"github.com/pluralsh/plural/internal/parentwatch"
)

func TestTheContextEndsWithThePipe(t *testing.T) {
	pipe, other := io.Pipe()
	ctx := parentwatch.Bind(t.Context(), pipe)
	if _, err := other.Write([]byte("what is said does not matter")); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatal("it ended before the pipe")
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
}
