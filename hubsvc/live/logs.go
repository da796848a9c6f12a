package live

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/logring"
)

const (
	// maxLog bounds a log that is not followed, in bytes.
	maxLog = 16 << 20
	// defaultTail and maxTail bound how many lines of an agent's or the hub's own log are asked for.
	defaultTail = 200
	maxTail     = 2000
)

// podLogs streams what a pod's container prints, as its API server has it for the person.
func (a *API) podLogs(w http.ResponseWriter, r *http.Request, who asker) error {
	query, err := podLogQuery(r.URL.Query())
	if err != nil {
		return err
	}
	pod := r.PathValue("pod")
	at, err := newPlace("", "v1", "pods", r.PathValue("namespace"))
	if err != nil || !word().MatchString(pod) {
		return bad("%q is no name of a pod", clip(r.PathValue("namespace")+"/"+pod))
	}
	asked, err := at.request(r.Context(), http.MethodGet, query, nil, pod, "log")
	if err != nil {
		return err
	}
	who.releaseRequest() // it has its place among the requests to clusters
	resp, err := a.do(r.Context(), who, asked)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := refused(resp); err != nil {
		return err
	}
	out := plain(w)
	_, err = io.Copy(out, resp.Body)
	if err != nil && r.Context().Err() == nil {
		panic(http.ErrAbortHandler) // so that nobody takes it for the end of the log
	}
	return nil
}

// podLogQuery says in the API server's words what was asked for.
func podLogQuery(asked url.Values) (url.Values, error) {
	query := url.Values{}
	if container := asked.Get("container"); container != "" {
		if !word().MatchString(container) {
			return nil, bad("%q is no name of a container", clip(container))
		}
		query.Set("container", container)
	}
	for name, as := range map[string]string{"follow": "follow", "previous": "previous", "timestamps": "timestamps"} {
		yes, err := flag(asked, name)
		if err != nil {
			return nil, err
		}
		if yes {
			query.Set(as, "true")
		}
	}
	if query.Get("follow") == "" {
		query.Set("limitBytes", strconv.Itoa(maxLog))
	}
	if tail := asked.Get("tail"); tail != "" {
		n, err := strconv.ParseInt(tail, 10, 32)
		if err != nil || n < 0 {
			return nil, bad("tail %q is no number of lines", clip(tail))
		}
		query.Set("tailLines", strconv.FormatInt(n, 10))
	}
	if since := asked.Get("since"); since != "" {
		d, err := time.ParseDuration(since)
		if err != nil || d <= 0 {
			return nil, bad("since %q is no time such as 10m", clip(since))
		}
		query.Set("sinceSeconds", strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10))
	}
	return query, nil
}

func flag(asked url.Values, name string) (bool, error) {
	switch value := asked.Get(name); value {
	case "1", "true":
		return true, nil
	case "", "0", "false":
		return false, nil
	default:
		return false, bad("%s %q is neither true nor false", name, clip(value))
	}
}

// plainText is an answer that is text, each part of which goes out at once.
type plainText struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func plain(w http.ResponseWriter) *plainText {
	p := &plainText{w, http.NewResponseController(w)}
	_ = p.rc.SetReadDeadline(time.Time{}) // one that cannot be set never ends anything
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Security-Policy", "sandbox")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	_ = p.rc.Flush()
	return p
}

func (p *plainText) Write(data []byte) (int, error) {
	_ = p.rc.SetWriteDeadline(time.Now().Add(stalled))
	n, err := p.w.Write(data)
	if err == nil {
		err = p.rc.Flush()
	}
	return n, err
}

// logQuery is what is wanted of an agent's or the hub's own log.
func logQuery(asked url.Values) (logring.Query, error) {
	q := logring.Query{Tail: defaultTail, Service: asked.Get("service")}
	var err error
	if q.Follow, err = flag(asked, "follow"); err != nil {
		return q, err
	}
	if tail := asked.Get("tail"); tail != "" {
		if q.Tail, err = strconv.Atoi(tail); err != nil || q.Tail < 0 || q.Tail > maxTail {
			return q, bad("tail %q is not a number of lines from 0 to %d", clip(tail), maxTail)
		}
	}
	return q, nil
}

// agentLogs streams the agent's own log.
func (a *API) agentLogs(w http.ResponseWriter, r *http.Request, who asker) error {
	q, err := logQuery(r.URL.Query())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	agent, err := a.o.Reach(ctx, who.cluster)
	if err != nil {
		return err
	}
	defer agent.Release()
	lines, err := agent.Logs(ctx, &tunnelapi.LogsRequest{Tail: int32(q.Tail), Follow: q.Follow, Service: q.Service})
	if err != nil {
		return err
	}
	first, err := lines.Recv()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return a.following(ctx, cancel, w, q.Follow, who, func() error { return a.again(r, who) }, func(out io.Writer) error {
		for err == nil {
			if _, err = io.WriteString(out, logText(time.UnixMilli(first.GetUnixMs()), first.GetLevel(), first.GetMessage(), first.GetAttributes())); err == nil {
				first, err = lines.Recv()
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
}

// hubLogs streams this hub's own log, which speaks of everybody.
func (a *API) hubLogs(w http.ResponseWriter, r *http.Request) {
	if err := a.ownLog(w, r); err != nil {
		answer(w, err)
	}
}

func (a *API) ownLog(w http.ResponseWriter, r *http.Request) error {
	p, err := a.known(r, "admin")
	if err != nil {
		return err
	}
	q, err := logQuery(r.URL.Query())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	still := func() error {
		if now, err := a.known(r, "admin"); err != nil || now.Name != p.Name {
			return errGone
		}
		return nil
	}
	return a.following(ctx, cancel, w, q.Follow, asker{Person: p}, still, func(out io.Writer) error {
		return a.o.HubLog.Read(ctx, q, func(l logring.Line) error {
			_, err := io.WriteString(out, logText(l.Time, strings.ToLower(l.Level.String()), l.Message, l.Attributes))
			return err
		})
	})
}

// following sends a log, and ends it when whoever reads it may do so no more.
func (a *API) following(ctx context.Context, end context.CancelFunc, w http.ResponseWriter, follow bool, who asker, still func() error, send func(io.Writer) error) error {
	if follow {
		done, err := a.open(ctx, who.Person)
		if err != nil {
			return err
		}
		defer done()
		who.releaseRequest()
		watched := make(chan struct{})
		defer func() {
			end()
			<-watched
		}()
		go func() {
			defer close(watched)
			for wait(ctx, recheck) == nil {
				if still() != nil {
					end()
				}
			}
		}()
	}
	if err := send(plain(w)); err != nil && !follow {
		return &partialAnswerError{err}
	}
	return nil
}

// logText is a line as people read it: control bytes cannot begin another one, or steer a terminal.
func logText(at time.Time, level, message string, attributes []string) string {
	var b strings.Builder
	b.WriteString(at.UTC().Format("2006-01-02T15:04:05.000Z") + " " + safe(level) + " " + safe(message))
	for _, attribute := range attributes {
		b.WriteString(" " + safe(attribute))
	}
	b.WriteByte('\n')
	return b.String()
}

// safe has each control byte escaped.
func safe(text string) string {
	control := func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' }
	if !strings.ContainsFunc(text, control) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if control(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
