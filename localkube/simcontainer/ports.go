package simcontainer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
)

// Ports that are not a web server's.
const (
	EchoPort   = 7 // sends back what it is sent
	ClosedPort = 1 // nobody listens
)

// Page is what every other port answers to GET.
const Page = "simulated container: nothing serves here\n"

// maxHead bounds what is read of a request before its body.
const maxHead = 64 << 10

// Forward plays one connection to a port of the pod until either side ends it. The caller closes it.
func (c Container) Forward(_ context.Context, port int32, connection io.ReadWriter) error {
	switch port {
	case ClosedPort:
		return fmt.Errorf("connect to port %d of pod %q: %w", port, c.Pod, syscall.ECONNREFUSED)
	case EchoPort:
		_, err := io.Copy(connection, connection)
		return err
	default:
		return serveHTTP(connection)
	}
}

// serveHTTP answers requests one after the other. A peer that ends the connection, or does not speak HTTP, is no error.
func serveHTTP(connection io.ReadWriter) error {
	limited := &io.LimitedReader{R: connection, N: maxHead}
	reader := bufio.NewReader(limited)
	for {
		limited.N = maxHead
		request, err := http.ReadRequest(reader)
		if err != nil {
			return answerMalformed(connection, err)
		}
		limited.N = 1 << 30 // a body of any size is thrown away
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return nil
		}
		if err := answer(connection, request); err != nil || request.Close {
			return err
		}
	}
}

func answerMalformed(connection io.Writer, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	_, err = io.WriteString(connection, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	return err
}

func answer(connection io.Writer, request *http.Request) error {
	code, body := http.StatusOK, Page
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		code, body = http.StatusMethodNotAllowed, ""
	}
	response := http.Response{
		StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Request: request, Close: request.Close,
		Header:        http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(strings.NewReader(body)),
	}
	return response.Write(connection)
}
