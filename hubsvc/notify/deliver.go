package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pluralsh/plural/internal/httpclient"
)

// Line is one line of what a sink is to get whole.
type Line struct {
	Time time.Time
	// Denied says that it is about something that was not allowed.
	Denied bool
	// JSON is brought as it is, byte by byte. ID is the same whenever the line comes.
	JSON []byte
	ID   string
}

// Deliver makes one attempt at giving a sink lines, in their order. It waits for the sink to say that it has them, and keeps nothing:
// whoever calls it tries again, with the same lines. A webhook gets all in one message, whose id is that of the last.
func (n *Notifier) Deliver(ctx context.Context, sink string, lines []Line) error {
	to, ok := n.Table().Sinks[sink]
	if !ok {
		return fmt.Errorf("sink %s is not there any more", sink)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch to.Kind {
	case Webhook:
		id := lines[len(lines)-1].ID
		body, err := n.envelope(id, lines)
		if err != nil {
			return err
		}
		return n.courier.webhook(ctx, &to, id, body)
	case File:
		var text bytes.Buffer
		for i := range lines {
			text.Write(lines[i].JSON)
			text.WriteByte('\n')
		}
		return n.courier.write(to.Target, text.Bytes())
	case Syslog:
		messages := make([]syslogMessage, len(lines))
		for i, line := range lines {
			messages[i] = syslogMessage{priority: logAudit + severityOf(line.Denied), time: line.Time, id: "audit", text: line.JSON}
		}
		return n.courier.syslog(ctx, to.Target, messages)
	case Slack:
	}
	return errors.New("a sink of its kind takes no lines")
}

// envelope is composed by hand: encoders change the bytes of the lines.
func (n *Notifier) envelope(id string, lines []Line) ([]byte, error) {
	head, err := json.Marshal(struct {
		ID        string `json:"id"`
		Workspace string `json:"workspace"`
		Replica   string `json:"replica"`
	}{id, n.Workspace(), n.Self})
	if err != nil {
		return nil, err
	}
	body := bytes.NewBuffer(head[:len(head)-1])
	body.WriteString(`,"entries":`)
	for i := range lines {
		body.WriteByte("[,"[min(i, 1)])
		body.Write(lines[i].JSON)
	}
	body.WriteString("]}")
	return body.Bytes(), nil
}

// After is how long the sink that gave an error wants to be left alone.
func After(err error) time.Duration {
	if asked := new(httpclient.RetryError); errors.As(err, &asked) {
		return asked.After
	}
	return 0
}
