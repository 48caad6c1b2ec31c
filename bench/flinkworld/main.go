// flinkworld stands in for the data plane of many Flink clusters at once, so that an operator can be
// measured against a real API server without nodes or JVMs.
//
// It does two things:
//   - it reports every JobManager and TaskManager Deployment as available, -ready-after its creation, and
//   - it answers the Flink REST API on -listen for all clusters, told apart by the Host header
//     (<cluster>-rest.<namespace>[:port]) or by a /cluster/<namespace>/<cluster>/ path prefix.
//
// State is per cluster and follows the Deployment: a new Deployment starts its job, deleting it ends the
// cluster. GET /_stats prints the REST calls served, by route.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"
	"regexp"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of the API server")
	listen := flag.String("listen", "127.0.0.1:8081", "address of the Flink REST API")
	readyAfter := flag.Duration("ready-after", time.Second, "time from a Deployment's creation to its being available")
	stall := flag.String("stall", "", "regexp of namespace/cluster whose REST API accepts connections and never answers")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	// Thousands of Deployments become available in the same second.
	config.QPS, config.Burst = 5000, 5000
	w := &world{
		clusters:   map[string]*cluster{},
		calls:      map[string]int{},
		client:     kubernetes.NewForConfigOrDie(config),
		readyAfter: *readyAfter,
	}
	if *stall != "" {
		w.stall = regexp.MustCompile(*stall)
	}
	watch(w)
	log.Printf("Flink REST API of every cluster on %s", *listen)
	log.Fatal(http.ListenAndServe(*listen, w))
}

// watch feeds ConfigMaps and Deployments of all namespaces to the world.
func watch(w *world) {
	factory := informers.NewSharedInformerFactory(w.client, 0)
	handlers := map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{
		factory.Core().V1().ConfigMaps().Informer(): {
			AddFunc:    w.observeConfigMap,
			UpdateFunc: func(_, object any) { w.observeConfigMap(object) },
		},
		factory.Apps().V1().Deployments().Informer(): {
			AddFunc:    w.observeDeployment,
			UpdateFunc: func(_, object any) { w.observeDeployment(object) },
			DeleteFunc: w.forgetDeployment,
		},
	}
	for informer, handler := range handlers {
		if _, err := informer.AddEventHandler(handler); err != nil {
			log.Fatal(err)
		}
	}
	factory.Start(context.Background().Done())
}
