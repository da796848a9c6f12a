package tunnel_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	agenttunnel "github.com/pluralsh/plural/agent/tunnel"
	"github.com/pluralsh/plural/test/support/needs"
)

const nginxConfig = `
daemon off;
pid %[1]s/pid;
error_log %[1]s/error.log warn;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  map $http_upgrade $connection_upgrade { default upgrade; '' close; }
  server {
    listen %[2]s ssl http2;
    ssl_certificate %[1]s/cert.pem;
    ssl_certificate_key %[1]s/key.pem;
    ssl_protocols TLSv1.3;
    client_max_body_size 0;
    proxy_ssl_protocols TLSv1.3;
    grpc_ssl_protocols TLSv1.3;
    %[3]s
  }
}
`

func TestAgentConnectsThroughNginx(t *testing.T) {
	program := needs.Program(t, "nginx", "nginx")
	ca := newAuthority(t)
	for name, test := range map[string]struct{ locations, want string }{
		"which passes upgrades on": {`location / {
			proxy_pass https://%[1]s; proxy_http_version 1.1;
			proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;
		}`, "upgrade"},
		"which knows websockets alone": {`location / {
			if ($http_upgrade !~* "^(|websocket)$") { return 400; }
			proxy_pass https://%[1]s; proxy_http_version 1.1;
			proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;
		}`, "websocket"},
		"which knows gRPC alone": {`location / { proxy_pass https://%[1]s; }
		location /plural.channel.v1.Pipe/ { grpc_pass grpcs://%[1]s; grpc_read_timeout 60s; }`, "pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet()
			hub := f.hub(t, "hub-0")
			dir := t.TempDir()
			// The workers of an nginx that root starts are somebody else.
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			pair := ca.replica(t).Certificates[0]
			key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
			if err != nil {
				t.Fatal(err)
			}
			address := unused(t)
			for file, content := range map[string][]byte{
				"cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
				"key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
				"conf":     fmt.Appendf(nil, nginxConfig, dir, address, fmt.Sprintf(test.locations, hub.server.Listener.Addr())),
			} {
				if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			nginx := exec.Command(program, "-p", dir, "-c", filepath.Join(dir, "conf"))
			nginx.Stderr = os.Stderr
			if err := nginx.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = nginx.Process.Signal(os.Interrupt)
				_ = nginx.Wait()
			})
			a := f.agent(t, "edge", []*replica{hub}, func(o *agenttunnel.Options) {
				o.URL, o.Dial = "https://"+address, nil
				o.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.certificate.Raw})
			})
			hub.connected(1)
			if got := hub.Connections()[0].Transport; got != test.want {
				t.Errorf("it is by %s, want %s\n%s", got, test.want, a.log)
			}
			if hub.Connections()[0].Bound {
				t.Error("its proof is said to be bound to TLS, which ends at nginx")
			}
			hub.answers("edge", a)
			transfers(t, hub)
		})
	}
}

// unused is an address that nobody listens on.
func unused(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
