// flinkworld stands in for the data plane of many Flink clusters at once, so that an operator can be
// measured against a real API server without nodes or JVMs.
//
// It does two things:
//   - it reports every JobManager and TaskManager Deployment as available, -ready-after its creation, and
//   - it answers the Flink REST API on -listen for all clusters, told apart by the Host header
//     (<cluster>-rest.<namespace>[:port]) or by a /cluster/<namespace>/<cluster>/ path prefix.
//
// State is per cluster and follows the Deployment: a new Deployment starts its job, deleting it ends the
// cluster. Of each object only what it is asked about is kept, so that 10,000 clusters fit.
//
//	GET  /_stats               REST calls served, by route
//	GET  /_asked               how many clusters were asked anything since the last POST
//	POST /_asked               forgets which were
//	POST /_stall?below=NAME    clusters with names before NAME accept connections and never answer; empty: none
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of the API server")
	listen := flag.String("listen", "127.0.0.1:8081", "address of the Flink REST API")
	readyAfter := flag.Duration("ready-after", time.Second, "time from a Deployment's creation to its being available")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	// Thousands of Deployments become available in the same second.
	config.QPS, config.Burst = 5000, 5000
	w := &world{
		clusters:   map[string]*cluster{},
		jobIDs:     map[string]string{},
		calls:      map[string]int{},
		asked:      map[string]struct{}{},
		client:     kubernetes.NewForConfigOrDie(config),
		readyAfter: *readyAfter,
	}
	watch(w)
	log.Printf("Flink REST API of every cluster on %s", *listen)
	log.Fatal(http.ListenAndServe(*listen, w))
}

// watch feeds ConfigMaps and Deployments of all namespaces to the world.
func watch(w *world) {
	factory := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithTransform(keepWhatIsRead))
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

// keepWhatIsRead drops most of an object before it is stored.
func keepWhatIsRead(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
		accessor.SetAnnotations(nil)
	}
	switch object := object.(type) {
	case *corev1.ConfigMap:
		object.Data = map[string]string{"job-id": jobIDIn(object)}
	case *appsv1.Deployment:
		pod := corev1.PodSpec{Containers: []corev1.Container{{}}}
		if all := object.Spec.Template.Spec.Containers; len(all) > 0 {
			pod.Containers[0] = corev1.Container{Image: all[0].Image, Command: all[0].Command, Args: all[0].Args}
		}
		object.Spec = appsv1.DeploymentSpec{Replicas: object.Spec.Replicas, Template: corev1.PodTemplateSpec{Spec: pod}}
	}
	return object, nil
}
