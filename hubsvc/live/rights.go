package live

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/pluralsh/plural/internal/principal"
)

const (
	// granted and denied are how long the answers are believed.
	granted = 10 * time.Second
	denied  = time.Second
	// maxRights bounds how many answers are remembered.
	maxRights = 10_000
	// asking bounds one question.
	asking = 10 * time.Second
)

// right is a person's to list what is in a place. Two requests that showed the same credential are one person's.
type right struct {
	credential, cluster string
	place
}

// verdict is an answer, with the time until which it is believed.
type verdict struct {
	err   error
	until time.Time
}

// metadataList asks for no more than is needed to see that there is an answer.
const metadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// may returns nil when the person may list what is in a place, else why not. It has the cluster asked, by the same request
// that the person could send: a review of rights would know the cluster's rules alone, and not those that the agent was given.
func (a *API) may(ctx context.Context, who asker, at place) error {
	key := right{who.Credential, who.cluster, at}
	a.mu.Lock()
	v, known := a.rights[key]
	a.mu.Unlock()
	if known && a.o.Now().Before(v.until) {
		return v.err
	}
	if who.Credential == "" {
		return a.ask(ctx, who, at)
	}
	asked := a.asked.DoChan(who.Credential+"\x00"+who.cluster+"\x00"+at.path(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asking)
		defer cancel()
		err := a.ask(ctx, who, at)
		a.believe(key, err)
		return nil, err
	})
	select {
	case answer := <-asked:
		return answer.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask lists one object as the person.
func (a *API) ask(ctx context.Context, who asker, at place) error {
	r, err := at.request(ctx, http.MethodGet, url.Values{"limit": {"1"}}, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", metadataList)
	resp, err := a.do(ctx, who, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := refused(resp); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody)) // the rest is not waited for
	return err
}

// believe remembers an answer; that there was none is not one.
func (a *API) believe(key right, err error) {
	v := verdict{err, a.o.Now().Add(granted)}
	if err != nil {
		if no := refusalOf(err); no.Status != http.StatusForbidden && no.Status != http.StatusNotFound {
			return
		}
		v.until = a.o.Now().Add(denied)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.rights) >= maxRights {
		for key, v := range a.rights {
			if !a.o.Now().Before(v.until) {
				delete(a.rights, key)
			}
		}
	}
	if len(a.rights) >= maxRights {
		clear(a.rights)
	}
	a.rights[key] = v
}

// hides says that a person may not list what is in a place; an error means that this could not be found out.
func (a *API) hides(ctx context.Context, who asker, at place) (bool, error) {
	err := a.may(ctx, who, at)
	if err == nil {
		return false, nil
	}
	if no := refusalOf(err); no.Status == http.StatusForbidden || no.Status == http.StatusNotFound {
		return true, nil
	}
	return true, err
}

// open counts a person's stream, until the returned function is called.
func (a *API) open(ctx context.Context, p principal.Person) (done func(), err error) {
	done, ok := a.streams.Take(ctx, p)
	if !ok {
		return nil, &Refusal{
			Status: http.StatusTooManyRequests, Message: "too many streams at a time", Fix: "close some, or try again later",
		}
	}
	return done, nil
}

// begin counts a person's request, until the returned function is called, which may be called twice.
func (a *API) begin(ctx context.Context, p principal.Person) (done func(), err error) {
	done, ok := a.requests.Take(ctx, p)
	if !ok {
		return nil, &Refusal{Status: http.StatusTooManyRequests, Message: "too many requests at a time", Fix: "wait for some to end"}
	}
	return done, nil
}

// errGone ends a stream of somebody who may not see it any more.
var errGone = errors.New("access was withdrawn")

// again makes sure that whoever asked is still who they were, and may still see the cluster.
func (a *API) again(r *http.Request, who asker) error {
	now, err := a.admit(r)
	if err != nil || now.Name != who.Name {
		return errGone
	}
	return nil
}
