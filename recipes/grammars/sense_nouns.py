"""The nouns of sense.py, by what they are: English:French:gender, then the plurals where they are irregular.

_ is a space, * marks an aspirated h, - a noun without a plural. Genders were compared with the dictionary of Debian's hunspell-fr.
"""

from __future__ import annotations

__all__ = ["NOUNS"]

NOUNS = {
    "mammal": """wolfhound:lévrier:m badger:blaireau:m squirrel:écureuil:m boar:sanglier:m elk:élan:m moose:orignal:m
        reindeer:renne:m:reindeer:rennes mule:mule:f llama:lama:m hippopotamus:hippopotame:m rhinoceros:rhinocéros:m
        gorilla:gorille:m chimpanzee:chimpanzé:m baboon:babouin:m gazelle:gazelle:f antelope:antilope:f
        buffalo:buffle:m:buffaloes:buffles bison:bison:m:bison:bisons raccoon:raton_laveur:m:raccoons:ratons_laveurs
        koala:koala:m panda:panda:m jaguar:jaguar:m cheetah:guépard:m hyena:hyène:f jackal:chacal:m coyote:coyote:m
        ferret:furet:m chinchilla:chinchilla:m porcupine:porc-épic:m:porcupines:porcs-épics
        bat:chauve-souris:f:bats:chauves-souris walrus:morse:m dolphin:dauphin:m chamois:chamois:m:chamois:chamois
        ibex:bouquetin:m heifer:génisse:f ram:bélier:m ox:bœuf:m:oxen:bœufs stallion:étalon:m""",
    "bird": """sparrow:moineau:m robin:rouge-gorge:m:robins:rouges-gorges blackbird:merle:m nightingale:rossignol:m
        lark:alouette:f finch:pinson:m woodpecker:pic:m cuckoo:coucou:m heron:*héron:m pelican:pélican:m
        flamingo:flamant:m penguin:manchot:m vulture:vautour:m hawk:épervier:m
        raven:grand_corbeau:m:ravens:grands_corbeaux quail:caille:f pheasant:faisan:m dove:colombe:f canary:canari:m
        chick:poussin:m duckling:caneton:m gander:jars:m albatross:albatros:m buzzard:buse:f jay:geai:m
        tit:mésange:f thrush:grive:f toucan:toucan:m cockatoo:cacatoès:m""",
    "sea_animal": """salmon:saumon:m:salmon:saumons trout:truite:f:trout:truites carp:carpe:f:carp:carpes eel:anguille:f
        octopus:pieuvre:f squid:calmar:m:squid:calmars lobster:*homard:m jellyfish:méduse:f:jellyfish:méduses
        pike:brochet:m:pike:brochets sturgeon:esturgeon:m swordfish:espadon:m:swordfish:espadons stingray:raie:f
        seahorse:hippocampe:m piranha:piranha:m catfish:silure:m:catfish:silures""",
    "reptile": """salamander:salamandre:f iguana:iguane:m chameleon:caméléon:m cobra:cobra:m python:python:m
        alligator:alligator:m gecko:gecko:m newt:triton:m""",
    "small_creature": """caterpillar:chenille:f grasshopper:sauterelle:f cricket:grillon:m ladybird:coccinelle:f
        dragonfly:libellule:f beetle:scarabée:m moth:papillon_de_nuit:m:moths:papillons_de_nuit snail:escargot:m
        slug:limace:f scorpion:scorpion:m cockroach:cafard:m earthworm:ver_de_terre:m:earthworms:vers_de_terre
        cicada:cigale:f firefly:luciole:f""",
    "fruit": """grape:raisin:m grapefruit:pamplemousse:m mango:mangue:f kiwi:kiwi:m raspberry:framboise:f blackberry:mûre:f
        blueberry:myrtille:f date:datte:f coconut:noix_de_coco:f:coconuts:noix_de_coco papaya:papaye:f
        clementine:clémentine:f watermelon:pastèque:f nectarine:nectarine:f pomegranate:grenade:f
        redcurrant:groseille:f lime:citron_vert:m:limes:citrons_verts quince:coing:m hazelnut:noisette:f
        almond:amande:f chestnut:châtaigne:f olive:olive:f""",
    "vegetable": """cabbage:chou:m:cabbages:choux cauliflower:chou-fleur:m:cauliflowers:choux-fleurs aubergine:aubergine:f
        courgette:courgette:f radish:radis:m asparagus:asperge:f:-:- beetroot:betterave:f celery:céleri:m:-:-
        spinach:épinard:m:-:- avocado:avocat:m endive:endive:f garlic:ail:m:-:- shallot:échalote:f
        green_bean:haricot_vert:m:green_beans:haricots_verts lentil:lentille:f chickpea:pois_chiche:m
        sweetcorn:maïs:m:-:- fennel:fenouil:m:-:- truffle:truffe:f""",
    "meal": """stew:ragoût:m lasagne:lasagne:f:-:- risotto:risotto:m couscous:couscous:m:-:- purée:purée:f gratin:gratin:m
        curry:curry:m quiche:quiche:f paella:paella:f roast:rôti:m casserole:cassoulet:m fondue:fondue:f
        raclette:raclette:f burger:hamburger:m kebab:kebab:m meatball:boulette:f ravioli:ravioli:m:-:-
        hot_pot:pot-au-feu:m:-:- dish_of_the_day:plat_du_jour:m:-:-
        breakfast:petit_déjeuner:m:breakfasts:petits_déjeuners dinner:dîner:m lunch:déjeuner:m snack:en-cas:m
        dessert:dessert:m""",
    "meat": """chicken_leg:cuisse_de_poulet:f:chicken_legs:cuisses_de_poulet cutlet:côtelette:f chop:côte:f fillet:filet:m
        bacon:lard:m:-:- veal:veau:m:-:- beef:bœuf:m:-:- pâté:pâté:m salami:salami:m black_pudding:boudin:m
        liver:foie:m""",
    "cheese": """camembert:camembert:m gruyère:gruyère:m mozzarella:mozzarella:f roquefort:roquefort:m""",
    "pastry": """brioche:brioche:f baguette:baguette:f doughnut:beignet:m éclair:éclair:m macaroon:macaron:m
        meringue:meringue:f muffin:muffin:m tart:tarte:f
        cheesecake:gâteau_au_fromage:m:cheesecakes:gâteaux_au_fromage gingerbread:pain_d'épices:m:-:-
        loaf:miche:f:loaves:miches flan:flan:m mousse:mousse:f sorbet:sorbet:m ice_cream:glace:f sweet:bonbon:m
        caramel:caramel:m lollipop:sucette:f
        chocolate_bar:tablette_de_chocolat:f:chocolate_bars:tablettes_de_chocolat""",
    "liquid": """syrup:sirop:m vinegar:vinaigre:m:-:- oil:huile:f sauce:sauce:f dressing:vinaigrette:f whisky:whisky:m:-:-
        rum:rhum:m:-:- brandy:eau-de-vie:f:-:- cognac:cognac:m:-:- smoothie:smoothie:m milkshake:milk-shake:m
        cocktail:cocktail:m liqueur:liqueur:f mineral_water:eau_minérale:f:-:- gravy:jus_de_viande:m:-:-
        cream:crème:f hot_chocolate:chocolat_chaud:m:-:-""",
    "medicine": """pill:pilule:f ointment:pommade:f vaccine:vaccin:m cough_syrup:sirop_pour_la_toux:m:-:-
        antibiotic:antibiotique:m lotion:lotion:f drop:goutte:f injection:piqûre:f capsule:gélule:f remedy:remède:m""",
    "garment": """waistcoat:gilet:m overcoat:pardessus:m anorak:anorak:m
        dressing_gown:robe_de_chambre:f:dressing_gowns:robes_de_chambre apron:tablier:m shawl:châle:m
        vest:maillot_de_corps:m:vests:maillots_de_corps swimsuit:maillot_de_bain:m:swimsuits:maillots_de_bain
        tuxedo:smoking:m uniform:uniforme:m poncho:poncho:m
        nightdress:chemise_de_nuit:f:nightdresses:chemises_de_nuit tracksuit:survêtement:m parka:parka:f
        blazer:blazer:m sari:sari:m""",
    "accessory": """handbag:sac_à_main:m:handbags:sacs_à_main beret:béret:m bonnet:bonnet:m turban:turban:m mitten:moufle:f
        handkerchief:mouchoir:m veil:voile:m slipper:pantoufle:f clog:sabot:m trainer:basket:f headscarf:foulard:m
        bow_tie:nœud_papillon:m:bow_ties:nœuds_papillons wig:perruque:f mask:masque:m bootlace:lacet:m
        high_heel:talon_aiguille:m:high_heels:talons_aiguilles""",
    "jewellery": """earring:boucle_d'oreille:f:earrings:boucles_d'oreilles brooch:broche:f pendant:pendentif:m medal:médaille:f
        medallion:médaillon:m tiara:diadème:m emerald:émeraude:f ruby:rubis:m sapphire:saphir:m locket:médaillon:m
        cufflink:bouton_de_manchette:m:cufflinks:boutons_de_manchette signet_ring:chevalière:f""",
    "furniture_piece": """sideboard:buffet:m rocking_chair:fauteuil_à_bascule:m:rocking_chairs:fauteuils_à_bascule cot:berceau:m
        deckchair:chaise_longue:f:deckchairs:chaises_longues pouffe:pouf:m workbench:établi:m
        folding_chair:chaise_pliante:f:folding_chairs:chaises_pliantes
        high_chair:chaise_haute:f:high_chairs:chaises_hautes display_cabinet:vitrine:f""",
    "furnishing": """rug:carpette:f pillow:oreiller:m duvet:couette:f blind:store:m candlestick:chandelier:m doormat:paillasson:m
        bedspread:dessus-de-lit:m:bedspreads:dessus-de-lit lampshade:abat-jour:m:lampshades:abat-jour
        wallpaper:papier_peint:m:-:- tapestry:tapisserie:f ashtray:cendrier:m""",
    "vessel_kitchen": """saucepan:casserole:f jug:pichet:m carafe:carafe:f flask:gourde:f thermos:thermos:m ladle:louche:f
        tray:plateau:m colander:passoire:f lid:couvercle:m corkscrew:tire-bouchon:m tin_opener:ouvre-boîte:m
        whisk:fouet:m rolling_pin:rouleau_à_pâtisserie:m:rolling_pins:rouleaux_à_pâtisserie grater:râpe:f
        sieve:tamis:m wok:wok:m pressure_cooker:autocuiseur:m
        cutting_board:planche_à_découper:f:cutting_boards:planches_à_découper""",
    "holder": """tin:boîte_de_conserve:f:tins:boîtes_de_conserve tube:tube:m cardboard_box:carton:m packet:paquet:m
        rucksack:sac_à_dos:m:rucksacks:sacs_à_dos briefcase:serviette:f piggy_bank:tirelire:f
        purse:porte-monnaie:m:purses:porte-monnaie shopping_bag:cabas:m
        toolbox:boîte_à_outils:f:toolboxes:boîtes_à_outils pencil_case:trousse:f wheelie_bin:conteneur:m cask:fût:m
        vat:cuve:f watering_can:arrosoir:m jerrycan:jerrican:m tank:réservoir:m
        letterbox:boîte_aux_lettres:f:letterboxes:boîtes_aux_lettres jewel_case:écrin:m""",
    "appliance": """fridge:réfrigérateur:m freezer:congélateur:m dishwasher:lave-vaisselle:m:dishwashers:lave-vaisselle
        tumble_dryer:sèche-linge:m:tumble_dryers:sèche-linge toaster:grille-pain:m:toasters:grille-pain
        kettle:bouilloire:f microwave:micro-ondes:m vacuum_cleaner:aspirateur:m hairdryer:sèche-cheveux:m
        iron:fer_à_repasser:m:irons:fers_à_repasser lawnmower:tondeuse:f blender:mixeur:m
        air_conditioner:climatiseur:m cooker:cuisinière:f extractor_hood:*hotte:f
        food_processor:robot_de_cuisine:m:food_processors:robots_de_cuisine
        water_heater:chauffe-eau:m:water_heaters:chauffe-eau""",
    "gadget": """smartphone:smartphone:m laptop:ordinateur_portable:m:laptops:ordinateurs_portables console:console:f
        charger:chargeur:m projector:projecteur:m scanner:scanner:m router:routeur:m loudspeaker:*haut-parleur:m
        headset:casque:m webcam:webcam:f drone:drone:m robot:robot:m
        memory_card:carte_mémoire:f:memory_cards:cartes_mémoire hard_disk:disque_dur:m:hard_disks:disques_durs
        joystick:manette:f record_player:tourne-disque:m
        walkie-talkie:talkie-walkie:m:walkie-talkies:talkies-walkies telescope:télescope:m microscope:microscope:m
        thermometer:thermomètre:m compass:boussole:f stopwatch:chronomètre:m metronome:métronome:m
        photocopier:photocopieuse:f typewriter:machine_à_écrire:f:typewriters:machines_à_écrire
        cash_register:caisse_enregistreuse:f:cash_registers:caisses_enregistreuses
        smoke_detector:détecteur_de_fumée:m:smoke_detectors:détecteurs_de_fumée burglar_alarm:alarme:f""",
    "hand_tool": """spanner:clé_anglaise:f:spanners:clés_anglaises crowbar:pied-de-biche:m:crowbars:pieds-de-biche spade:bêche:f
        hoe:binette:f sickle:faucille:f scythe:faux:f trowel:truelle:f paintbrush:pinceau:m roller:rouleau:m
        stepladder:escabeau:m wheelbarrow:brouette:f tape_measure:mètre_ruban:m:tape_measures:mètres_rubans
        spirit_level:niveau_à_bulle:m:spirit_levels:niveaux_à_bulle clamp:serre-joint:m sander:ponceuse:f
        chainsaw:tronçonneuse:f jack:cric:m stapler:agrafeuse:f ruler:règle:f
        fishing_rod:canne_à_pêche:f:fishing_rods:cannes_à_pêche""",
    "music_instrument": """cello:violoncelle:m double_bass:contrebasse:f clarinet:clarinette:f oboe:*hautbois:m saxophone:saxophone:m
        trombone:trombone:m accordion:accordéon:m harmonica:harmonica:m organ:orgue:m banjo:banjo:m
        ukulele:ukulélé:m tambourine:tambourin:m xylophone:xylophone:m bagpipe:cornemuse:f lute:luth:m
        bassoon:basson:m tuba:tuba:m mandolin:mandoline:f viola:alto:m gong:gong:m""",
    "book": """comic:bande_dessinée:f:comics:bandes_dessinées encyclopedia:encyclopédie:f atlas:atlas:m textbook:manuel:m
        diary:journal_intime:m:diaries:journaux_intimes notebook:cahier:m
        cookbook:livre_de_cuisine:m:cookbooks:livres_de_cuisine album:album:m brochure:brochure:f
        catalogue:catalogue:m biography:biographie:f thriller:thriller:m
        fairy_tale:conte_de_fées:m:fairy_tales:contes_de_fées play:pièce_de_théâtre:f:plays:pièces_de_théâtre
        anthology:anthologie:f leaflet:dépliant:m guidebook:guide:m thesis:thèse:f manuscript:manuscrit:m
        autobiography:autobiographie:f""",
    "document": """bill:facture:f receipt:reçu:m passport:passeport:m certificate:certificat:m form:formulaire:m
        questionnaire:questionnaire:m invitation:invitation:f telegram:télégramme:m email:courriel:m
        prescription:ordonnance:f recipe:recette:f list:liste:f map:carte:f plan:plan:m ticket:billet:m
        licence:permis:m will:testament:m petition:pétition:f summary:résumé:m translation:traduction:f
        essay:dissertation:f exercise:exercice:m statement:déclaration:f application:candidature:f
        memo:note_de_service:f:memos:notes_de_service review:critique:f chapter:chapitre:m paragraph:paragraphe:m
        footnote:note_de_bas_de_page:f:footnotes:notes_de_bas_de_page headline:gros_titre:m slogan:slogan:m""",
    "art": """song:chanson:f symphony:symphonie:f opera:opéra:m melody:mélodie:f waltz:valse:f ballet:ballet:m
        sculpture:sculpture:f portrait:portrait:m photograph:photographie:f drawing:dessin:m sketch:croquis:m
        fresco:fresque:f mosaic:mosaïque:f documentary:documentaire:m cartoon:dessin_animé:m:cartoons:dessins_animés
        sonata:sonate:f hymn:hymne:m ballad:ballade:f engraving:gravure:f watercolour:aquarelle:f""",
    "idea": """idea:idée:f proposal:proposition:f hypothesis:hypothèse:f argument:argument:m concept:concept:m
        principle:principe:m opinion:opinion:f rumour:rumeur:f suspicion:soupçon:m memory:souvenir:m dream:rêve:m
        ambition:ambition:f belief:croyance:f secret:secret:m mystery:mystère:m equation:équation:f
        formula:formule:f theorem:théorème:m proof:preuve:f calculation:calcul:m explanation:explication:f
        excuse:excuse:f lie:mensonge:m promise:promesse:f joke:blague:f proverb:proverbe:m metaphor:métaphore:f
        riddle:énigme:f legend:légende:f tradition:tradition:f custom:coutume:f""",
    "policy": """reform:réforme:f regulation:règlement:m tax:impôt:m treaty:traité:m agreement:accord:m strategy:stratégie:f
        campaign:campagne:f budget:budget:m subsidy:subvention:f amendment:amendement:m ban:interdiction:f
        sanction:sanction:f verdict:verdict:m programme:programme:m directive:directive:f mandate:mandat:m
        compromise:compromis:m initiative:initiative:f""",
    "speech_act": """remark:remarque:f comment:commentaire:m complaint:plainte:f warning:avertissement:m announcement:annonce:f
        presentation:présentation:f sermon:sermon:m debate:débat:m conversation:conversation:f interview:entretien:m
        compliment:compliment:m apology:excuse:f order:ordre:m confession:aveu:m testimony:témoignage:m
        advice:conseil:m:-:- threat:menace:f insult:insulte:f""",
    "occasion": """festival:festival:m carnival:carnaval:m:carnivals:carnavals ceremony:cérémonie:f funeral:enterrement:m
        birthday:anniversaire:m picnic:pique-nique:m parade:défilé:m demonstration:manifestation:f strike:grève:f
        match:match:m tournament:tournoi:m marathon:marathon:m
        auction:vente_aux_enchères:f:auctions:ventes_aux_enchères exhibition:exposition:f cruise:croisière:f
        expedition:expédition:f holiday:congé:m excursion:excursion:f hike:randonnée:f flight:vol:m journey:trajet:m
        workshop:atelier:m rehearsal:répétition:f premiere:première:f election:élection:f trial:procès:m
        operation:opération:f examination:examen:m season:saison:f""",
    "feeling": """anger:colère:f:-:- joy:joie:f:-:- fear:peur:f:-:- sadness:tristesse:f:-:- jealousy:jalousie:f:-:-
        pride:fierté:f:-:- hope:espoir:m love:amour:m:-:- hatred:*haine:f:-:- despair:désespoir:m:-:-
        enthusiasm:enthousiasme:m:-:- boredom:ennui:m:-:-""",
    "ailment": """fever:fièvre:f headache:mal_de_tête:m:headaches:maux_de_tête flu:grippe:f:-:- cough:toux:f:-:-
        allergy:allergie:f infection:infection:f wound:blessure:f bruise:bleu:m:bruises:bleus burn:brûlure:f
        sprain:entorse:f migraine:migraine:f rash:éruption:f toothache:mal_de_dents:m:-:- insomnia:insomnie:f:-:-
        disease:maladie:f virus:virus:m""",
    "body": """arm:bras:m leg:jambe:f finger:doigt:m knee:genou:m:knees:genoux shoulder:épaule:f elbow:coude:m
        ankle:cheville:f wrist:poignet:m nose:nez:m ear:oreille:f mouth:bouche:f tongue:langue:f
        tooth:dent:f:teeth:dents forehead:front:m chin:menton:m cheek:joue:f eyebrow:sourcil:m beard:barbe:f
        moustache:moustache:f thumb:pouce:m heel:talon:m toe:orteil:m stomach:estomac:m throat:gorge:f""",
    "building": """skyscraper:gratte-ciel:m:skyscrapers:gratte-ciel cottage:chaumière:f villa:villa:f library:bibliothèque:f
        post_office:bureau_de_poste:m:post_offices:bureaux_de_poste town_hall:mairie:f
        courthouse:palais_de_justice:m:courthouses:palais_de_justice cathedral:cathédrale:f monastery:monastère:m
        abbey:abbaye:f convent:couvent:m temple:temple:m synagogue:synagogue:f fortress:forteresse:f
        lighthouse:phare:m windmill:moulin_à_vent:m:windmills:moulins_à_vent warehouse:entrepôt:m hangar:*hangar:m
        greenhouse:serre:f gymnasium:gymnase:m nursery:crèche:f casino:casino:m
        nightclub:boîte_de_nuit:f:nightclubs:boîtes_de_nuit brewery:brasserie:f distillery:distillerie:f
        sawmill:scierie:f refinery:raffinerie:f observatory:observatoire:m zoo:zoo:m barracks:caserne:f:-:-
        chalet:chalet:m bungalow:bungalow:m pavilion:pavillon:m shed:remise:f henhouse:poulailler:m
        dovecote:pigeonnier:m""",
    "shop": """bookshop:librairie:f grocery:épicerie:f café:café:m pub:pub:m bar:bar:m canteen:cantine:f
        pizzeria:pizzeria:f boutique:boutique:f department_store:grand_magasin:m:department_stores:grands_magasins
        laundry:blanchisserie:f kiosk:kiosque:m campsite:camping:m
        youth_hostel:auberge_de_jeunesse:f:youth_hostels:auberges_de_jeunesse""",
    "indoor": """living_room:salon:m dining_room:salle_à_manger:f:dining_rooms:salles_à_manger lobby:*hall:m
        classroom:salle_de_classe:f:classrooms:salles_de_classe laboratory:laboratoire:m office:bureau:m
        studio:studio:m waiting_room:salle_d'attente:f:waiting_rooms:salles_d'attente cell:cellule:f
        dormitory:dortoir:m changing_room:vestiaire:m veranda:véranda:f terrace:terrasse:f
        pantry:garde-manger:m:pantries:garde-manger laundry_room:buanderie:f
        ballroom:salle_de_bal:f:ballrooms:salles_de_bal amphitheatre:amphithéâtre:m flat:appartement:m""",
    "part_of_building": """ceiling:plafond:m floor:plancher:m railing:balustrade:f shutter:volet:m lock:serrure:f handle:poignée:f
        tap:robinet:m sink:évier:m washbasin:lavabo:m shower:douche:f radiator:radiateur:m doorbell:sonnette:f
        gutter:gouttière:f façade:façade:f threshold:seuil:m partition:cloison:f banister:rampe:f""",
    "outdoor": """orchard:verger:m vineyard:vignoble:m cliff:falaise:f mountain:montagne:f volcano:volcan:m canyon:canyon:m
        plain:plaine:f plateau:plateau:m peninsula:péninsule:f coast:côte:f glacier:glacier:m dune:dune:f
        oasis:oasis:f:oases:oasis jungle:jungle:f savannah:savane:f moor:lande:f clearing:clairière:f
        quarry:carrière:f mine:mine:f cemetery:cimetière:m playground:terrain_de_jeu:m:playgrounds:terrains_de_jeu
        golf_course:terrain_de_golf:m:golf_courses:terrains_de_golf town:bourg:m hamlet:*hameau:m suburb:banlieue:f
        district:quartier:m region:région:f province:province:f capital:capitale:f""",
    "body_of_water": """ocean:océan:m waterfall:cascade:f torrent:torrent:m reservoir:retenue:f spring:source:f fountain:fontaine:f
        puddle:flaque:f gulf:golfe:m strait:détroit:m estuary:estuaire:m fjord:fjord:m
        hot_spring:source_chaude:f:hot_springs:sources_chaudes tide:marée:f""",
    "way": """lane:ruelle:f motorway:autoroute:f pavement:trottoir:m square:place:f
        crossroads:carrefour:m:crossroads:carrefours dead_end:impasse:f ring_road:périphérique:m
        level_crossing:passage_à_niveau:m:level_crossings:passages_à_niveau
        railway_line:voie_ferrée:f:railway_lines:voies_ferrées driveway:allée:f""",
    "transport": """motorbike:moto:f camper_van:camping-car:m combine_harvester:moissonneuse:f
        fire_engine:camion_de_pompiers:m:fire_engines:camions_de_pompiers hearse:corbillard:m
        rickshaw:pousse-pousse:m:rickshaws:pousse-pousse
        skateboard:planche_à_roulettes:f:skateboards:planches_à_roulettes pushchair:poussette:f
        wheelchair:fauteuil_roulant:m:wheelchairs:fauteuils_roulants pickup:pick-up:m:pickups:pick-up
        dustcart:camion_poubelle:m:dustcarts:camions_poubelles
        forklift:chariot_élévateur:m:forklifts:chariots_élévateurs locomotive:locomotive:f""",
    "ship": """submarine:sous-marin:m liner:paquebot:m tanker:pétrolier:m kayak:kayak:m dinghy:canot:m
        lifeboat:canot_de_sauvetage:m:lifeboats:canots_de_sauvetage schooner:goélette:f frigate:frégate:f
        tug:remorqueur:m pedalo:pédalo:m catamaran:catamaran:m hovercraft:aéroglisseur:m:hovercraft:aéroglisseurs""",
    "flying_machine": """helicopter:hélicoptère:m glider:planeur:m hot-air_balloon:montgolfière:f airship:dirigeable:m rocket:fusée:f
        satellite:satellite:m seaplane:hydravion:m biplane:biplan:m microlight:ULM:m:microlights:ULM
        parachute:parachute:m""",
    "vehicle_part": """steering_wheel:volant:m brake:frein:m bumper:pare-chocs:m clutch:embrayage:m headlight:phare:m
        exhaust_pipe:pot_d'échappement:m:exhaust_pipes:pots_d'échappement windscreen_wiper:essuie-glace:m
        saddle:selle:f pedal:pédale:f handlebar:guidon:m propeller:hélice:f rudder:gouvernail:m anchor:ancre:f
        mast:mât:m sail:voile:f oar:rame:f seat_belt:ceinture_de_sécurité:f:seat_belts:ceintures_de_sécurité""",
    "flower": """daisy:marguerite:f orchid:orchidée:f sunflower:tournesol:m lily:lis:m carnation:œillet:m poppy:coquelicot:m
        violet:violette:f daffodil:jonquille:f hyacinth:jacinthe:f iris:iris:m peony:pivoine:f lilac:lilas:m
        geranium:géranium:m dahlia:dahlia:m mimosa:mimosa:m""",
    "tree_plant": """pine:pin:m fir:sapin:m birch:bouleau:m willow:saule:m maple:érable:m beech:*hêtre:m poplar:peuplier:m
        olive_tree:olivier:m apple_tree:pommier:m cherry_tree:cerisier:m fig_tree:figuier:m fern:fougère:f
        moss:mousse:f:-:- bamboo:bambou:m:-:- nettle:ortie:f thistle:chardon:m clover:trèfle:m:-:- shrub:arbuste:m
        seedling:semis:m:-:- lawn:pelouse:f wheat:blé:m:-:- barley:orge:f:-:- sugar_cane:canne_à_sucre:f:-:-
        cypress:cyprès:m cedar:cèdre:m""",
    "material": """wood:bois:m:-:- iron_bar:barre_de_fer:f:iron_bars:barres_de_fer concrete:béton:m:-:- sand:sable:m:-:-
        clay:argile:f:-:- plaster:plâtre:m:-:- marble:marbre:m:-:- leather:cuir:m:-:- wool:laine:f:-:-
        silk:soie:f:-:- cotton:coton:m:-:- velvet:velours:m:-:- wax:cire:f:-:- rubber:caoutchouc:m:-:-
        plastic:plastique:m:-:- copper:cuivre:m:-:- steel:acier:m:-:- cardboard:carton:m:-:- coal:charbon:m:-:-
        petrol:essence:f:-:- varnish:vernis:m:-:- paint:peinture:f glue:colle:f:-:- cement:ciment:m:-:-""",
    "sky": """sun:soleil:m:-:- star:étoile:f planet:planète:f comet:comète:f rainbow:arc-en-ciel:m:rainbows:arcs-en-ciel
        fog:brouillard:m:-:- mist:brume:f:-:- lightning:foudre:f:-:- heatwave:canicule:f drought:sécheresse:f
        blizzard:blizzard:m tornado:tornade:f cyclone:cyclone:m downpour:averse:f eclipse:éclipse:f
        sunset:coucher_de_soleil:m:sunsets:couchers_de_soleil""",
    "group_of_people": """team:équipe:f orchestra:orchestre:m choir:chœur:m army:armée:f crowd:foule:f committee:comité:m jury:jury:m
        parliament:parlement:m ministry:ministère:m embassy:ambassade:f police:police:f:-:- club:club:m
        band:groupe:m gang:bande:f family:famille:f tribe:tribu:f crew:équipage:m delegation:délégation:f
        federation:fédération:f bank:banque:f airline:compagnie_aérienne:f:airlines:compagnies_aériennes
        start-up:start-up:f:start-ups:start-up board:conseil_d'administration:m:boards:conseils_d'administration
        regiment:régiment:m brigade:brigade:f""",
    "money": """price:prix:m salary:salaire:m rent:loyer:m fine:amende:f loan:prêt:m debt:dette:f deposit:caution:f
        reward:récompense:f pension:retraite:f discount:remise:f grant:bourse:f bonus:prime:f ransom:rançon:f
        inheritance:héritage:m fortune:fortune:f tip:pourboire:m profit:bénéfice:m""",
    "toy_sport": """swing:balançoire:f slide:toboggan:m teddy_bear:ours_en_peluche:m:teddy_bears:ours_en_peluche
        yo-yo:yo-yo:m:yo-yos:yo-yo spinning_top:toupie:f puppet:marionnette:f
        rocking_horse:cheval_à_bascule:m:rocking_horses:chevaux_à_bascule jigsaw:puzzle:m trampoline:trampoline:m
        snowboard:snowboard:m surfboard:planche_de_surf:f:surfboards:planches_de_surf
        golf_club:club_de_golf:m:golf_clubs:clubs_de_golf chessboard:échiquier:m""",
    "smell_sound": """smell:odeur:f perfume:parfum:m noise:bruit:m scream:cri:m echo:écho:m music:musique:f:-:- silence:silence:m
        voice:voix:f whistle:sifflet:m smoke:fumée:f:-:- dust:poussière:f:-:- gas:gaz:m:-:- steam:vapeur:f:-:-
        taste:goût:m rattle:hochet:m""",
    "software": """program:logiciel:m website:site:m password:mot_de_passe:m:passwords:mots_de_passe file:fichier:m
        folder:dossier:m database:base_de_données:f:databases:bases_de_données
        update:mise_à_jour:f:updates:mises_à_jour video:vidéo:f podcast:podcast:m network:réseau:m server:serveur:m
        video_game:jeu_vidéo:m:video_games:jeux_vidéo spreadsheet:tableur:m algorithm:algorithme:m
        virus_scanner:antivirus:m search_engine:moteur_de_recherche:m:search_engines:moteurs_de_recherche""",
}
