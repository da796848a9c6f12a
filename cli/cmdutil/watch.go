package cmdutil

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/ui"
)

const (
	// calm is the least time between two looks of a watch: what changes meanwhile is shown at once.
	calm = 500 * time.Millisecond
	// lookAgain is when a hub is asked again that could not be, or that does not tell what changes.
	lookAgain = 2 * time.Second
	// growOlder is how often a screen is drawn anew on which nothing but ages changes.
	growOlder = 15 * time.Second
)

// ErrEnough ends a watch without an error: show returns it when there is no more to wait for.
var ErrEnough = errors.New("there is no more to wait for")

// Watching is how a command shows what the hub knows: once or, with --watch, as often as it changes.
type Watching struct {
	// On is --watch.
	On bool
	// Kinds are what to be told of, where it fits Filter. None: nothing but time says that something may have changed.
	Kinds  []v1.ChangeKind
	Filter string
	// Every is when to look anyway; zero: never, but for ages on a screen.
	Every time.Duration
	// Awaits says that something is waited for: a hub that somebody stopped, and has to start, is an error then.
	Awaits bool
}

// Flags declares --watch.
func (w *Watching) Flags(flags *pflag.FlagSet) {
	flags.BoolVarP(&w.On, "watch", "w", false, "show it again whenever it changes")
}

// Show prints what look finds, in the format that was asked for.
func (f *Factory) Show(
	ctx context.Context, w Watching, look func(context.Context, *client.Client, *ui.Printer) (ui.View, error),
) error {
	hub, printer, err := f.Ask()
	if err != nil {
		return err
	}
	if !w.On {
		view, err := look(ctx, hub, printer)
		if err != nil {
			return err
		}
		return f.Print(printer, view)
	}
	live := printer.Live()
	if w.Every == 0 && live.Screen() {
		w.Every = growOlder
	}
	said := ""
	err = watcher{hub, w, func(err error) { live.Say(f.told(err)) }}.run(ctx, func(ctx context.Context) error {
		view, err := look(ctx, hub, printer)
		if err != nil && !errors.Is(err, ErrEnough) {
			return err
		}
		beside := strings.Join(append(slices.Clone(view.Lacks), view.Note), "\n")
		if beside != said && !live.Screen() {
			f.beside(printer, &view)
		}
		said = beside
		return errors.Join(live.Print(view), err)
	})
	return errors.Join(Watched(err), live.Close())
}

// Watched is how a watch ended that only the person ends: their interruption is its code, and no error to be told.
func Watched(err error) error {
	if errors.Is(err, context.Canceled) {
		return &ui.Err{Code: ui.ExitInterrupted, Err: err}
	}
	return err
}

// Print prints a view, and says what goes beside it.
func (f *Factory) Print(printer *ui.Printer, view ui.View) error {
	err := printer.Print(view)
	f.beside(printer, &view)
	return err
}

// beside says what goes beside a view.
func (f *Factory) beside(printer *ui.Printer, view *ui.View) {
	for _, line := range view.Lacks {
		f.Say("%s", ui.Clean(line))
	}
	if view.Note != "" && printer.Human() {
		f.Say("%s", ui.Clean(view.Note))
	}
}

// told is an error in one line.
func (f *Factory) told(err error) string { return Explain(err).Error() }

// Watch has show show something, and again whenever what the hub tells of the kinds of w, where it fits the filter, may have
// changed it; changes that come close together are shown as one. A hub that is away is told once and waited for, but as Awaits
// says. Watch ends with ctx, with any other error of show's, and without one when that is ErrEnough.
func (f *Factory) Watch(ctx context.Context, w Watching, show func(context.Context) error) error {
	hub, err := f.HubClient()
	if err != nil {
		return err
	}
	away := func(err error) { ui.Render(f.IO.ErrOut, Explain(err)) }
	return watcher{hub, w, away}.run(ctx, show)
}

// watcher looks again and again.
type watcher struct {
	hub *client.Client
	Watching
	// away is told that the hub is.
	away func(error)
}

func (w watcher) run(ctx context.Context, show func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	changed, ended := make(chan struct{}, 1), make(chan error, 1)
	changed <- struct{}{}
	poke := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	var following sync.WaitGroup
	following.Go(func() { ended <- w.follow(ctx, poke) })
	err := w.looks(ctx, show, changed, ended)
	cancel()
	following.Wait()
	return err
}

// follow pokes whenever something may have changed, and returns nil where it cannot know.
func (w watcher) follow(ctx context.Context, poke func()) error {
	if len(w.Kinds) == 0 {
		return nil
	}
	err := w.hub.Follow(ctx, client.Following{
		Kinds: w.Kinds, Filter: w.Filter, Connected: func(error) { poke() }, // what was missed in between nobody tells
	}, func(v1.StreamEvent) error {
		poke()
		return nil
	})
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return nil // a hub of an older version
	}
	return err
}

func (w watcher) looks(ctx context.Context, show func(context.Context) error, changed <-chan struct{}, ended <-chan error) error {
	every := time.NewTimer(lookAgain)
	defer every.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-ended:
			if err != nil {
				return err
			}
			w.Every = lookAgain
		case <-changed:
		case <-every.C:
		}
		next := w.Every
		err := show(ctx)
		var away *client.Unreachable
		switch {
		case errors.Is(err, ErrEnough):
			return nil
		case errors.As(err, &away) && !(w.Awaits && Stopped(err) != nil):
			if told != away.Error() {
				w.away(err)
			}
			told, next = away.Error(), lookAgain
		case err != nil:
			return err
		default:
			told = ""
		}
		every.Stop()
		if next > 0 {
			every.Reset(next)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(calm):
		}
	}
}
