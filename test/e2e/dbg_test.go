package e2e
import "os"
func dbg(h *habits) { if os.Getenv("DBG") != "" { f, _ := os.OpenFile("/tmp/dbg.log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); f.WriteString("=== RUN\n" + h.log.String()); f.Close() } }
