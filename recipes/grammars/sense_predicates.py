"""What sense.py says of things: groups of nouns, and the predicates that suit them.

A line is English=French, with the feminine where it differs; one that begins with > is a verb with what follows, the
others are what follows "was". In a verb phrase, words that differ in the feminine agree in number too.
"""

from __future__ import annotations

__all__ = ["GROUPS", "PREDICATES"]

# The groups in which predicates are given, by the classes of sense_nouns.py and of pronoun_words.py.
GROUPS = {
    "animal": "mammal bird sea_animal reptile animal hunter prey beast",
    "small": "small_creature insect stinger",
    "food": "vegetable fruit meal meat cheese pastry food toast spread paste",
    "liquid": "liquid drink",
    "clothes": "garment accessory clothes",
    "jewel": "jewellery jewel",
    "furniture": "furniture_piece furnishing seat furniture",
    "kitchen": "vessel_kitchen mug",
    "holder": "holder container bucket",
    "machine": "appliance gadget device",
    "tool": "hand_tool tool",
    "instrument": "music_instrument instrument",
    "text": "book document text",
    "idea": "idea matter",
    "policy": "policy proposal",
    "speech": "speech_act talk",
    "event": "occasion event",
    "place": "building shop place dwelling",
    "room": "indoor room",
    "outdoor": "outdoor land",
    "water": "body_of_water water",
    "way": "way road",
    "vehicle": "transport vehicle",
    "ship": "ship vessel",
    "aircraft": "flying_machine aircraft",
    "part": "part_of_building vehicle_part",
    "plant": "flower tree_plant plant",
    "group": "group_of_people institution",
    "toy": "toy_sport",
    "sky": "sky weather force",
}  # a group that is not here has the class of its own name

PREDICATES = """
@animal small ~ group
>was hungry=avait faim
>was very thirsty=avait très soif
>was cold=avait froid
>had not eaten for days=n'avait pas mangé depuis des jours
>had just woken up=venait de se réveiller
>had a broken paw=avait une patte cassée
>wanted to play=voulait jouer
>was looking for its young=cherchait ses petits
>was breathing with difficulty=respirait difficilement
>had smelled danger=avait senti le danger
>was used to people=avait l'habitude des gens
>was about to give birth=allait mettre bas
>had lost its mother=avait perdu sa mère
>had fleas=avait des puces
>had a long tail=avait une longue queue
>had sharp teeth=avait des dents pointues
>had grown up in the wild=avait grandi dans la nature
>could hardly stand=tenait à peine debout
>was watching us=nous observait
>had bitten someone=avait mordu quelqu'un
>was afraid of noise=avait peur du bruit
>was running in all directions=courait dans tous les sens
tame=apprivoisé=apprivoisée
obedient=obéissant=obéissante
frightened=effrayé=effrayée
famished=affamé=affamée
mischievous=espiègle
furious=furieux=furieuse
thin and weak=maigre+ et faible+
pregnant=en gestation
rabid=enragé=enragée
purebred=de race
nocturnal=nocturne
@food ~ liquid animal small plant medicine
>tasted of garlic=avait un goût d'ail
>melted in the mouth=fondait dans la bouche
>had gone bad=s'était gâté=s'était gâtée
>had too much salt in it=contenait trop de sel
>was full of vitamins=était riche en vitamines
>needed more pepper=manquait de poivre
>gave us stomach ache=nous donnait mal au ventre
overcooked=trop cuit=trop cuite
undercooked=pas assez cuit=pas assez cuite
burnt=brûlé=brûlée
mouldy=moisi=moisie
nutritious=nourrissant=nourrissante
appetising=appétissant=appétissante
edible=comestible
peppery=poivré=poivrée
homemade=fait maison=faite maison
low in fat=pauvre+ en graisses
full of sugar=plein de sucre=pleine de sucre
inedible=immangeable
hard to digest=difficile+ à digérer
mouth-watering=à croquer
@fruit vegetable ~ food plant
>had not ripened yet=n'avait pas encore mûri
>had worms in it=contenait des vers
>had been picked that morning=avait été cueilli le matin même=avait été cueillie le matin même
unripe=pas encore mûr=pas encore mûre
seedless=sans pépins
organic=biologique
@liquid ~ food medicine
>had been poured out too early=avait été versé trop tôt=avait été versée trop tôt
>had boiled over=avait débordé
>tasted of nothing=n'avait aucun goût
>contained too much alcohol=contenait trop d'alcool
fizzy=gazeux=gazeuse
alcoholic=alcoolisé=alcoolisée
watery=aqueux=aqueuse
undrinkable=imbuvable
refreshing=rafraîchissant=rafraîchissante
boiling=bouillant=bouillante
frothy=mousseux=mousseuse
@medicine ~ food liquid
>had to be taken on an empty stomach=devait être pris à jeun=devait être prise à jeun
>had no side effects=n'avait pas d'effets secondaires
>relieved the pain=soulageait la douleur
>made me drowsy=me donnait sommeil
harmless=inoffensif=inoffensive
available without a prescription=disponible+ sans ordonnance
@clothes ~ jewel
>no longer suited anyone=n'allait plus à personne
>had shrunk in the wash=avait rétréci au lavage
>was missing a button=avait perdu un bouton
>had gone out of fashion=était passé de mode=était passée de mode
>had to be ironed=devait être repassé=devait être repassée
>was too tight at the waist=serrait trop à la taille
>itched=grattait
fashionable=à la mode
creased=froissé=froissée
faded=délavé=délavée
knitted=tricoté=tricotée
ironed=repassé=repassée
waterproof=imperméable
too tight=trop serré=trop serrée
loose=ample
patched=rapiécé=rapiécée
old-fashioned=démodé=démodée
frayed=effiloché=effilochée
moth-eaten=mité=mitée
@jewel ~ clothes art instrument
>had belonged to a queen=avait appartenu à une reine
>sparkled in the light=étincelait à la lumière
>was insured for a million=était assuré pour un million=était assurée pour un million
>had been set in gold=avait été serti d'or=avait été sertie d'or
made of gold=en or
made of silver=en argent
counterfeit=contrefait=contrefaite
priceless=inestimable
engraved=gravé=gravée
@furniture ~ holder part kitchen instrument
>creaked when one moved=grinçait au moindre mouvement
>took three people to move=demandait trois personnes pour être déplacé=demandait trois personnes pour être déplacée
wobbly=bancal=bancale
padded=rembourré=rembourrée
antique=ancien=ancienne
upholstered in leather=recouvert de cuir=recouverte de cuir
hand-carved=sculpté à la main=sculptée à la main
@holder kitchen ~ furniture
>leaked=fuyait
>had a false bottom=avait un double fond
>would not close properly=fermait mal
>was filled to the brim=était rempli à ras bord=était remplie à ras bord
airtight=hermétique
chipped=ébréché=ébréchée
unbreakable=incassable
greased=graissé=graissée
half empty=à moitié vide+
half full=à moitié plein=à moitié pleine
@machine ~ vehicle ship aircraft tool instrument software part
>used too much electricity=consommait trop d'électricité
>had stopped working=avait cessé de fonctionner
>needed a new battery=avait besoin d'une pile neuve
>was still under warranty=était encore sous garantie
>kept beeping=n'arrêtait pas de biper
>came with no instructions=était livré sans mode d'emploi=était livrée sans mode d'emploi
>gave off sparks=faisait des étincelles
>had short-circuited=avait fait un court-circuit
>made a strange humming sound=faisait un drôle de bourdonnement
>had been plugged in all night=était resté branché toute la nuit=était restée branchée toute la nuit
plugged in=branché=branchée
wireless=sans fil
out of order=hors service
portable=portable
obsolete=obsolète
battery-operated=à piles
energy-saving=économe
faulty=défaillant=défaillante
noisy and slow=bruyant et lent=bruyante et lente
programmable=programmable
@tool ~ machine kitchen
>had lost its handle=avait perdu son manche
>had to be sharpened=devait être aiguisé=devait être aiguisée
>was well within reach=était à portée de main
>was lying on the workbench=traînait sur l'établi
blunt=émoussé=émoussée
sharp=tranchant=tranchante
handy=maniable
unsuitable=inadapté=inadaptée
ergonomic=ergonomique
@instrument ~ art smell_sound
>had to be tuned=devait être accordé=devait être accordée
>had a beautiful tone=avait un beau timbre
>was missing a string=avait perdu une corde
>had been played by a great musician=avait été joué par un grand musicien=avait été jouée par un grand musicien
out of tune=désaccordé=désaccordée
melodious=mélodieux=mélodieuse
well tuned=bien accordé=bien accordée
@text ~ art idea speech policy software
>had been translated badly=avait été mal traduit=avait été mal traduite
>contained many mistakes=contenait beaucoup d'erreurs
>was written in Latin=était écrit en latin=était écrite en latin
>had three hundred pages=comptait trois cents pages
>was out of print=était épuisé=était épuisée
>had been signed by the author=avait été signé par l'auteur=avait été signée par l'auteur
>ended badly=finissait mal
>mentioned our names=mentionnait nos noms
illegible=illisible
handwritten=manuscrit=manuscrite
captivating=captivant=captivante
well written=bien écrit=bien écrite
illustrated=illustré=illustrée
anonymous=anonyme
forged=falsifié=falsifiée
signed=signé=signée
out of date=dépassé=dépassée
poorly translated=mal traduit=mal traduite
unpublished=inédit=inédite
bilingual=bilingue
instructive=instructif=instructive
@art ~ text event idea
>was painted in oils=était peint à l'huile=était peinte à l'huile
>had inspired generations of artists=avait inspiré des générations d'artistes
>moved the audience to tears=émouvait le public aux larmes
moving=émouvant=émouvante
abstract=abstrait=abstraite
unfinished=inachevé=inachevée
acclaimed=acclamé=acclamée
realistic=réaliste
@idea policy ~ text speech event art money
>made no sense=n'avait aucun sens
>convinced nobody=ne convainquait personne
>had many opponents=avait beaucoup d'adversaires
>was based on false figures=reposait sur des chiffres faux
>raised more questions than answers=soulevait plus de questions que de réponses
>could not be proved=ne pouvait pas être prouvé=ne pouvait pas être prouvée
>was ahead of its time=était en avance sur son époque
>contradicted the facts=contredisait les faits
plausible=plausible
ridiculous=ridicule
brilliant=brillant=brillante
unrealistic=irréaliste
controversial=controversé=controversée
illogical=illogique
original=original=originale
false=faux=fausse
true=vrai=vraie
naive=naïf=naïve
unfounded=infondé=infondée
far-fetched=tiré par les cheveux=tirée par les cheveux
@policy ~ idea text event money
>had been adopted unanimously=avait été adopté à l'unanimité=avait été adoptée à l'unanimité
>came into force in January=entrait en vigueur en janvier
>harmed small businesses=nuisait aux petites entreprises
>divided the country=divisait le pays
illegal=illégal=illégale
unpopular=impopulaire
temporary=provisoire
binding=contraignant=contraignante
unconstitutional=anticonstitutionnel=anticonstitutionnelle
@speech ~ text idea event
>lasted over an hour=durait plus d'une heure
>offended everybody=vexait tout le monde
>had been rehearsed carefully=avait été répété avec soin=avait été répétée avec soin
sincere=sincère
persuasive=convaincant=convaincante
tactless=indélicat=indélicate
insincere=hypocrite
@event ~ policy text art speech
>had been postponed=avait été reporté=avait été reportée
>drew a large crowd=attirait une foule nombreuse
>took place in the open air=se déroulait en plein air
>went on all night=se prolongeait toute la nuit
>had to be cancelled=devait être annulé=devait être annulée
>ended in chaos=se terminait dans le chaos
>was sold out=affichait complet
annual=annuel=annuelle
spectacular=spectaculaire
lively=animé=animée
exhausting=épuisant=épuisante
televised=télévisé=télévisée
well attended=très suivi=très suivie
unforgettable=inoubliable
well organised=bien organisé=bien organisée
@feeling ~ idea smell_sound ailment
>overwhelmed us=nous submergeait
>had vanished=s'était envolé=s'était envolée
>could be read on every face=se lisait sur tous les visages
intense=intense
contagious=contagieux=contagieuse
irrational=irrationnel=irrationnelle
sincere and deep=sincère et profond=sincère et profonde
@ailment ~ feeling body animal
>lasted for weeks=durait des semaines
>needed to be treated at once=devait être soigné tout de suite=devait être soignée tout de suite
>kept me awake=m'empêchait de dormir
>would not heal=ne guérissait pas
>was getting worse every day=empirait chaque jour
incurable=incurable
painful=douloureux=douloureuse
chronic=chronique
benign=bénin=bénigne
life-threatening=mortel=mortelle
@body ~ animal
>itched terribly=démangeait terriblement
>had been hurting for days=faisait mal depuis des jours
>was bleeding=saignait
>had to be bandaged=devait être bandé=devait être bandée
swollen=enflé=enflée
sore=endolori=endolorie
numb=engourdi=engourdie
wrinkled=ridé=ridée
bony=osseux=osseuse
hairy=poilu=poilue
@place room ~ outdoor part way
>had been empty for years=était inoccupé depuis des années=était inoccupée depuis des années
>was being renovated=était en cours de rénovation
>had no heating=n'avait pas de chauffage
>smelled of damp=sentait l'humidité
>was rented by the month=se louait au mois
>had a view of the sea=avait vue sur la mer
>could hold two hundred people=pouvait accueillir deux cents personnes
>had burned down once=avait déjà brûlé une fois
>had just been repainted=venait d'être repeint=venait d'être repeinte
>closed on Mondays=fermait le lundi
haunted=hanté=hantée
furnished=meublé=meublée
spacious=spacieux=spacieuse
uninhabited=inhabité=inhabitée
well heated=bien chauffé=bien chauffée
badly lit=mal éclairé=mal éclairée
centrally located=central=centrale
soundproof=insonorisé=insonorisée
medieval=médiéval=médiévale
damp=humide
welcoming=accueillant=accueillante
draughty=plein de courants d'air=pleine de courants d'air
@outdoor ~ place way water sky
>stretched to the horizon=s'étendait jusqu'à l'horizon
>was covered in snow=était couvert de neige=était couverte de neige
>was full of mosquitoes=grouillait de moustiques
>had been declared a nature reserve=avait été classé réserve naturelle=avait été classée réserve naturelle
hilly=vallonné=vallonnée
fertile=fertile
arid=aride
picturesque=pittoresque
wooded=boisé=boisée
impassable=infranchissable
unexplored=inexploré=inexplorée
steep=escarpé=escarpée
@water ~ liquid outdoor
>had overflowed its banks=était sorti de son lit=était sortie de son lit
>was teeming with fish=regorgeait de poissons
>had a strong current=avait un fort courant
>had dried up=s'était asséché=s'était asséchée
>was covered with ice=était couvert de glace=était couverte de glace
shallow=peu profond=peu profonde
polluted=pollué=polluée
murky=trouble
navigable=navigable
choppy=houleux=houleuse
@way ~ outdoor place
>led nowhere=ne menait nulle part
>was full of potholes=était plein de nids-de-poule=était pleine de nids-de-poule
>was closed to traffic=était fermé à la circulation=était fermée à la circulation
>had been resurfaced=avait été refait=avait été refaite
paved=pavé=pavée
busy with traffic=très fréquenté=très fréquentée
one-way=à sens unique
impracticable=impraticable
toll-free=sans péage
@vehicle ~ ship aircraft machine part
>had a flat tyre=avait un pneu crevé
>had run out of petrol=était tombé en panne d'essence=était tombée en panne d'essence
>failed the safety inspection=ne passait pas le contrôle technique
>was badly parked=était mal garé=était mal garée
>had no brakes=n'avait plus de freins
>could carry nine passengers=pouvait transporter neuf passagers
>was doing ninety miles an hour=roulait à cent cinquante à l'heure
>had been towed away=avait été remorqué=avait été remorquée
second-hand=d'occasion
roadworthy=en état de rouler
air-conditioned=climatisé=climatisée
overloaded=surchargé=surchargée
uninsured=pas assuré=pas assurée
@ship ~ vehicle aircraft
>had struck a reef=avait heurté un récif
>was taking on water=prenait l'eau
>sailed under a foreign flag=naviguait sous pavillon étranger
>had been caught in a storm at sea=avait été pris dans une tempête en mer=avait été prise dans une tempête en mer
seaworthy=en état de naviguer
unsinkable=insubmersible
adrift=à la dérive
shipwrecked=naufragé=naufragée
@aircraft ~ vehicle ship
>had to make an emergency landing=devait atterrir d'urgence
>had taken off late=avait décollé en retard
>was flying at low altitude=volait à basse altitude
>lost height quickly=perdait vite de l'altitude
airborne=en vol
pilotless=sans pilote
supersonic=supersonique
@plant ~ fruit vegetable outdoor material
>had not been watered=n'avait pas été arrosé=n'avait pas été arrosée
>was in full bloom=était en pleine floraison
>needed more light=avait besoin de plus de lumière
>had grown too fast=avait poussé trop vite
>was eaten by greenfly=était couvert de pucerons=était couverte de pucerons
wilted=fané=fanée
evergreen=toujours vert=toujours verte
poisonous=vénéneux=vénéneuse
sweet-smelling=parfumé=parfumée
leafy=feuillu=feuillue
uprooted=déraciné=déracinée
newly planted=nouvellement planté=nouvellement plantée
@group ~ animal
>could not reach an agreement=n'arrivait pas à se mettre d'accord
>had a new president=avait un nouveau président
>needed more members=avait besoin de plus de membres
>had just been founded=venait d'être fondé=venait d'être fondée
>had lost the elections=avait perdu les élections
>met every Tuesday=se réunissait tous les mardis
>refused to pay=refusait de payer
>wanted to save money=voulait faire des économies
>was heavily in debt=était très endetté=était très endettée
bankrupt=en faillite
influential=influent=influente
corrupt=corrompu=corrompue
united=uni=unie
unanimous=unanime
understaffed=en sous-effectif
victorious=victorieux=victorieuse
undecided=indécis=indécise
@money ~ policy
>had to be paid in cash=devait être payé en espèces=devait être payée en espèces
>had gone up again=avait encore augmenté
>was deducted every month=était prélevé chaque mois=était prélevée chaque mois
>had not been paid for months=n'avait pas été versé depuis des mois=n'avait pas été versée depuis des mois
exorbitant=exorbitant=exorbitante
tax-free=exempt d'impôts=exempte d'impôts
monthly=mensuel=mensuelle
insufficient=insuffisant=insuffisante
modest=modeste
@toy ~ machine art
>amused the children=amusait les enfants
>needed two players=demandait deux joueurs
educational=éducatif=éducative
unsafe for children=dangereux pour les enfants=dangereuse pour les enfants
inflatable=gonflable
@material ~ clothes part food
>had to dry for two days=devait sécher deux jours
>came in rolls=se vendait en rouleaux
>was imported from Italy=était importé d'Italie=était importée d'Italie
flammable=inflammable
recyclable=recyclable
synthetic=synthétique
brittle=cassant=cassante
rustproof=inoxydable
coarse=grossier=grossière
biodegradable=biodégradable
@sky ~ outdoor smell_sound
>had been forecast for days=était annoncé depuis des jours=était annoncée depuis des jours
>could be seen from far away=se voyait de loin
>moved slowly eastwards=se déplaçait lentement vers l'est
unpredictable=imprévisible
dazzling=éblouissant=éblouissante
visible to the naked eye=visible+ à l'œil nu
devastating=dévastateur=dévastatrice
@smell_sound ~ feeling art
>came from the cellar=venait de la cave
>made our eyes water=nous piquait les yeux
>would not go away=ne voulait pas disparaître
deafening=assourdissant=assourdissante
unbearable=insupportable
faint=à peine perceptible+
nauseating=nauséabond=nauséabonde
stifling=étouffant=étouffante
@software ~ machine text
>had not been saved=n'avait pas été enregistré=n'avait pas été enregistrée
>crashed every hour=plantait toutes les heures
>took hours to download=mettait des heures à se télécharger
>contained a virus=contenait un virus
>required a password=exigeait un mot de passe
encrypted=crypté=cryptée
free of charge to download=gratuit à télécharger=gratuite à télécharger
user-friendly=facile+ à utiliser
incompatible=incompatible
hacked=piraté=piratée
out of memory=à court de mémoire
@part ~ furniture machine vehicle holder
>had come off its hinges=était sorti de ses gonds=était sortie de ses gonds
>would not move=ne bougeait plus
>had been badly fitted=avait été mal posé=avait été mal posée
>had to be replaced=devait être remplacé=devait être remplacée
>rattled in the wind=tremblait dans le vent
loose and rusty=branlant et rouillé=branlante et rouillée
cracked=fissuré=fissurée
freshly painted=fraîchement peint=fraîchement peinte
worm-eaten=vermoulu=vermoulue
""".strip()
